"""The exercises of lesson 03."""
import math

from helpers.checks import Exercise, Mistake

# ------------------------------------------------------------------ recurrent_flops(n, d)
recurrent_flops_exercise = Exercise(
    right=lambda n, d: 4 * n * d**2,
    cases={"n = 5, d = 2": (5, 2), "n = 100, d = 512": (100, 512), "n = 1, d = 7": (1, 7)},
    mistakes={
        "multiplications only": Mistake(
            lambda n, d: 2 * n * d**2,
            "This is half of it. Either the additions are missing (each multiplication is followed by one addition, so a "
            "product of two numbers counts 2), or one of the two matrices, W_x and W_h, is.",
            "只有一半。要么漏了加法（每次乘法跟着一次加法，一对数相乘要计 2 次），要么 W_x 和 W_h 两个矩阵漏了一个。"),
        "multiplications of one matrix": Mistake(
            lambda n, d: n * d**2,
            "This counts only the multiplications, and of only one matrix. Hint: two matrices, W_x and W_h, and 2 operations "
            "for each product of two numbers.",
            "这只算了一个矩阵，而且只算了乘法。提示：矩阵有 W_x 和 W_h 两个，每对数相乘要计 2 次运算。"),
        "d instead of d squared": Mistake(
            lambda n, d: 4 * n * d,
            "A vector of width d times a d x d matrix takes d * d multiplications, not d. Hint: every number in meets every "
            "number out.",
            "宽为 d 的向量乘 d x d 的矩阵，要 d * d 次乘法，不是 d 次。提示：每个输入的数都要和每个输出的数相遇。"),
        "n squared": Mistake(
            lambda n, d: 4 * n**2 * d,
            "This is what attention needs. Hint: in an RNN no token meets all others; each of the n steps has two products of a vector "
            "with a d x d matrix.",
            "这是注意力的运算量。提示：RNN 里词元不会两两相遇；n 步里的每一步，都是用向量乘两次 d x d 的矩阵。"),
        "n minus 1": Mistake(
            lambda n, d: 4 * (n - 1) * d**2,
            "One step is missing. Hint: the first token takes a step too, from a state of zeros, and so there are n.",
            "少算了一步。提示：第一个词元也要走一步，从全零状态出发，所以一共 n 步。"),
        "no product for the first state": Mistake(
            lambda n, d: 2 * n * d**2 + 2 * (n - 1) * d**2,
            "The first step multiplies its state by W_h too, although that state is zeros. Hint: all n steps are alike.",
            "第一步的状态虽然是零，也要乘 W_h。提示：n 步完全一样。"),
    })


# ------------------------------------------------------------------ attention_flops(n, m, d, projections)
def _attention(core=lambda n, m, d: 4 * n * m * d, projected=lambda n, m, d: 4 * n * d**2 + 4 * m * d**2):
    return lambda n, m, d, projections: core(n, m, d) + (projected(n, m, d) if projections else 0)


attention_flops_exercise = Exercise(
    right=_attention(),
    cases={
        ("n = 5, m = 7, d = 2, without projections", "n = 5, m = 7, d = 2，不含投影"): (5, 7, 2, False),
        ("n = 5, m = 7, d = 2, with projections", "n = 5, m = 7, d = 2，含投影"): (5, 7, 2, True),
        ("n = m = 100, d = 512, without projections", "n = m = 100, d = 512，不含投影"): (100, 100, 512, False),
        ("n = m = 100, d = 512, with projections", "n = m = 100, d = 512，含投影"): (100, 100, 512, True),
    },
    mistakes={
        "multiplications only": Mistake(
            _attention(lambda n, m, d: 2 * n * m * d, lambda n, m, d: 2 * n * d**2 + 2 * m * d**2),
            "These are the multiplications. Hint: each is followed by an addition, so count 2 for each product of two numbers.",
            "这是乘法的次数。提示：每次乘法都跟着一次加法，所以每对数相乘要计 2 次。"),
        "values forgotten": Mistake(
            _attention(lambda n, m, d: 2 * n * m * d),
            "One of the two big products is missing. Hint: Q K^T compares, and weights times V brings back; each takes 2 n m d.",
            "两个大乘积漏了一个。提示：Q K^T 用来比对，权重乘 V 用来取回，各要 2 n m d。"),
        "n squared": Mistake(
            _attention(lambda n, m, d: 4 * n**2 * d),
            "The core counts n x n scores. Hint: each of the n queries meets each of the m keys.",
            "核心部分按 n x n 个得分来算了。提示：n 个查询中的每一个要和 m 个键中的每一个相遇。"),
        "n plus m": Mistake(
            _attention(lambda n, m, d: 4 * (n + m)**2 * d),
            "This lets every token of both sequences meet every other. Hint: only queries meet keys, n of them m.",
            "这样算，两个序列的词元全都两两相遇了。提示：只有查询和键相遇，n 个对 m 个。"),
        "n squared everywhere": Mistake(
            _attention(lambda n, m, d: 4 * n**2 * d, lambda n, m, d: 8 * n * d**2),
            "m has no effect: this is self-attention. Hint: there are m keys and m values, so Q K^T has n x m entries, and W_k and "
            "W_v act on m tokens.",
            "m 没有起作用，这是自注意力。提示：键和值各有 m 个，所以 Q K^T 有 n x m 项，W_k 和 W_v 作用在 m 个词元上。"),
        "d squared in the core": Mistake(
            _attention(lambda n, m, d: 4 * n * d**2),
            "The core has d * d where n and m belong. Hint: Q K^T has n x m entries, each a dot product of width d.",
            "核心部分该是 n 乘 m 的地方写成了 d 乘 d。提示：Q K^T 有 n x m 项，每一项是宽为 d 的点积。"),
        "no d in the core": Mistake(
            _attention(lambda n, m, d: 4 * n * m),
            "The core lacks d: n x m is the number of scores, but each score is a dot product of width d. Hint: 2 d operations "
            "for each score.",
            "核心部分漏了 d：n x m 是得分的个数，而每个得分都是宽为 d 的点积。提示：每个得分要 2 d 次运算。"),
        "no projections": Mistake(
            _attention(projected=lambda n, m, d: 0),
            "The core is right; the projections are missing where projections is True. Hint: each is (tokens, d) times (d, d).",
            "核心部分对了；projections 为 True 时漏了投影。提示：每个投影是 (词元数, d) 乘 (d, d)。"),
        "always with projections": Mistake(
            lambda n, m, d, projections: _attention()(n, m, d, True),
            "With projections it is right; without them they must not be counted. Hint: look at the argument projections.",
            "带投影时是对的；不带时就不该算进去。提示：看一看参数 projections。"),
        "projections of n tokens": Mistake(
            _attention(projected=lambda n, m, d: 8 * n * d**2),
            "All four projections act on n tokens here. Hint: keys and values are made from the other sequence, of m tokens.",
            "这里四个投影都作用在 n 个词元上。提示：键和值来自另一个序列，有 m 个词元。"),
        "W_o on m tokens": Mistake(
            _attention(projected=lambda n, m, d: 2 * n * d**2 + 6 * m * d**2),
            "One projection too many acts on m tokens. Hint: the output has a row for each query, so W_o acts on n.",
            "作用在 m 个词元上的投影多了一个。提示：输出的每一行对应一个查询，所以 W_o 作用在 n 个词元上。"),
        "three projections": Mistake(
            _attention(projected=lambda n, m, d: 2 * n * d**2 + 4 * m * d**2),
            "Three projections are counted. Hint: W_q, W_k, W_v and, for the output, W_o.",
            "只算了三个投影。提示：W_q、W_k、W_v，还有输出的 W_o。"),
        "projections without factor 2": Mistake(
            _attention(projected=lambda n, m, d: 2 * n * d**2 + 2 * m * d**2),
            "The core is right; the projections lack the factor 2 for multiplication and addition.",
            "核心部分对了；投影少了“一次乘法加一次加法”的因子 2。"),
        "projections linear in d": Mistake(
            _attention(projected=lambda n, m, d: 4 * n * d + 4 * m * d),
            "The core is right; a projection multiplies each token by a d x d matrix, which takes d * d multiplications.",
            "核心部分对了；投影是每个词元乘一个 d x d 的矩阵，要 d * d 次乘法。"),
    })


# ------------------------------------------------------------------ costs_more_from(d, k)
costs_more_from_exercise = Exercise(
    right=lambda d, k: k * d // 2 + 1,
    cases={"d = 64, k = 3": (64, 3), "d = 5, k = 3": (5, 3), "d = 512, k = 9": (512, 9)},
    mistakes={
        "as much, not more": Mistake(
            lambda d, k: k * d // 2,
            "At this n attention does not need more yet: it needs as much if k d is even, less if it is odd. Hint: the next n.",
            "在这个 n，注意力还没有更贵：k d 是偶数时恰好相等，是奇数时还更便宜。提示：再往后一个 n。"),
        "rounded up": Mistake(
            lambda d, k: math.ceil(k * d / 2),
            "Right where k d is odd; where it is even, the two are equal at this n. Hint: the smallest whole number *above* k d / 2.",
            "k d 是奇数时对；是偶数时，在这个 n 两者恰好相等。提示：要的是*大于* k d / 2 的最小整数。"),
        "as against the RNN": Mistake(
            lambda d, k: d + 1,
            "This is where attention overtakes the RNN. Hint: a convolution needs 2 k n d^2, so its kernel size matters.",
            "这是注意力超过 RNN 的地方。提示：卷积要 2 k n d^2 次运算，和卷积核大小有关。"),
        "factor of the core forgotten": Mistake(
            lambda d, k: k * d + 1,
            "This compares the powers without their factors. Hint: solve 4 n^2 d > 2 k n d^2 for n.",
            "这里只比较了幂次，没有算上系数。提示：从 4 n^2 d > 2 k n d^2 解出 n。"),
        "a factor too many": Mistake(
            lambda d, k: k * d // 4 + 1,
            "Half of it: the factors are 4 for attention (two products) and 2 for the convolution. Hint: solve 4 n^2 d > 2 k n d^2.",
            "只有一半：系数是注意力 4（两个乘积）、卷积 2。提示：解 4 n^2 d > 2 k n d^2。"),
        "not a whole number": Mistake(
            lambda d, k: k * d / 2,
            "This is the n at which both cost the same, and it may be no whole number. Hint: a whole number above it, k * d // 2 + 1.",
            "这是两者恰好相等的 n，而且不一定是整数。提示：取比它大的整数，k * d // 2 + 1。"),
    })


# ------------------------------------------------------------------ layers_needed(n, k)
def _layers(formula):
    return lambda n, k: None if k == 1 else formula(n, k)


layers_needed_exercise = Exercise(
    right=_layers(lambda n, k: math.ceil(2 * (n - 1) / (k - 1))),
    cases={"n = 5, k = 3": (5, 3), "n = 33, k = 9": (33, 9), "n = 10, k = 5": (10, 5), "n = 6, k = 1": (6, 1)},
    mistakes={
        "rounded down": Mistake(
            _layers(lambda n, k: 2 * (n - 1) // (k - 1)),
            "Rounded down, the last layer is missing where the division leaves a rest. Hint: math.ceil.",
            "向下取整了：除不尽的时候，就少了最后一层。提示：math.ceil。"),
        "k for k - 1": Mistake(
            _layers(lambda n, k: math.ceil(2 * (n - 1) / k)),
            "The window has k places, but its middle is the token itself: it reaches only (k - 1) / 2 to each side.",
            "窗口有 k 个位置，但正中间是词元自己：向每一侧只能伸出 (k - 1) / 2。"),
        "n for n - 1": Mistake(
            _layers(lambda n, k: math.ceil(2 * n / (k - 1))),
            "From the first token to the last it is n - 1 places, not n.",
            "从第一个词元到最后一个，距离是 n - 1，不是 n。"),
        "both ends meet": Mistake(
            _layers(lambda n, k: math.ceil((n - 1) / (k - 1))),
            "After so many layers both ends meet in the middle token; for the first to reach the last it takes a way twice as "
            "long. Hint: one layer reaches (k - 1) / 2 to each side.",
            "这么多层之后，两端在中间的词元相遇；而要从第一个走到最后一个，路程是两倍。提示：一层向每侧只伸出 (k - 1) / 2。"),
        "n / k": Mistake(
            lambda n, k: math.ceil(n / k),
            "n / k is only the order of growth. Hint: one layer reaches (k - 1) / 2 places to each side, and n - 1 are to be covered.",
            "n / k 只是增长的量级。提示：一层向每侧伸出 (k - 1) / 2，一共要走 n - 1。"),
        "one layer a token": Mistake(
            _layers(lambda n, k: n - 1),
            "This is right for k = 3 only, where a layer reaches one place to each side. Hint: in general it reaches (k - 1) / 2.",
            "这只对 k = 3 成立，那时一层向每侧伸出 1 个位置。提示：一般情形是 (k - 1) / 2。"),
        "k = 1 divides by zero": Mistake(
            lambda n, k: math.ceil(2 * (n - 1) / (k - 1)),
            "Right, except that k = 1 divides by zero. A window of one token never reaches another: return None there.",
            "其余都对，只是 k = 1 时除以了零。窗口里只有自己，永远到不了别的词元：这时返回 None。"),
    })
