"""The exercises of lesson 07."""
import torch

from helpers.checks import Exercise, Mistake, numbers


# ------------------------------------------------------------------ share_of(matrix, name, r, devices)
def _rows(matrix, r, devices):
    return matrix.chunk(devices, dim=0)[r]


def _columns(matrix, r, devices):
    return matrix.chunk(devices, dim=1)[r]


def _share(others=_rows, output=_columns, which=lambda r, devices: r):
    return lambda matrix, name, r, devices: (output if name == "W_o" else others)(matrix, which(r, devices), devices)


def _whole_numbers(outputs, inputs):
    return torch.arange(float(outputs * inputs)).reshape(outputs, inputs)


share_exercise = Exercise(
    right=_share(),
    cases={
        ("W_q of width 6, device 0 of 3", "宽 6 的 W_q，3 个设备中的第 0 个"): (_whole_numbers(6, 4), "W_q", 0, 3),
        ("W_o of width 6, device 1 of 3", "宽 6 的 W_o，3 个设备中的第 1 个"): (_whole_numbers(6, 6), "W_o", 1, 3),
        ("W_v of width 8, device 1 of 2", "宽 8 的 W_v，2 个设备中的第 1 个"): (_whole_numbers(8, 5), "W_v", 1, 2),
        ("W_k of width 4, device 2 of 4", "宽 4 的 W_k，4 个设备中的第 2 个"): (_whole_numbers(4, 4), "W_k", 2, 4),
    },
    mistakes={
        "rows of W_o": Mistake(
            _share(output=_rows),
            "W_q, W_k and W_v are right, but W_o is cut into rows. Its inputs are the heads' outputs, and nn.Linear stores inputs "
            "across. Hint: columns for W_o.",
            "W_q、W_k、W_v 是对的，但 W_o 按行切了。W_o 的输入是各头的输出，而 nn.Linear 里一列对应一个输入。提示：W_o 按列切。"),
        "rows of W_o, transposed": Mistake(
            _share(output=lambda matrix, r, devices: _rows(matrix.T, r, devices)),
            "W_q, W_k and W_v are right, and W_o has the right numbers, but transposed. Hint: all rows, some columns: chunk with "
            "dim=1.",
            "W_q、W_k、W_v 是对的，W_o 的数也对，但转置了。提示：行全要，列取一段：chunk 时用 dim=1。"),
        "columns everywhere": Mistake(
            _share(others=_columns),
            "W_o is right, but the others are cut into columns: a device would read only a part of each token. Hint: a head reads the whole "
            "token and makes its own numbers; nn.Linear stores outputs down, so rows.",
            "W_o 是对的，但另外三个也按列切了：这样一个设备只读得到词元的一部分。提示：每个头都读整个词元，算出自己的那几个数；nn.Linear 里一行对应一个输出，所以按行切。"),
        "rows and columns swapped": Mistake(
            _share(_columns, _rows),
            "Rows and columns are swapped. nn.Linear stores (outputs, inputs). Hint: a head owns outputs of W_q, W_k, W_v and "
            "inputs of W_o.",
            "行和列弄反了。nn.Linear 存的是 (输出, 输入)。提示：对 W_q、W_k、W_v，头占的是输出；对 W_o，头占的是输入。"),
        "every devices-th": Mistake(
            _share(lambda matrix, r, devices: matrix[r::devices], lambda matrix, r, devices: matrix[:, r::devices]),
            "A device gets every devices-th row or column, so it has a bit of every head and none whole. Hint: neighbouring ones.",
            "一个设备隔 devices 行（列）才拿一行（列），结果每个头都有一点，没有一个完整。提示：拿相邻的一段。"),
        "the whole in every device": Mistake(
            _share(lambda matrix, r, devices: matrix, lambda matrix, r, devices: matrix),
            "Every device gets all of it. Hint: only one of the devices parts, number r.",
            "每个设备都拿到了全部。提示：切成 devices 份，只要第 r 份。"),
        "devices counted from 1": Mistake(
            _share(which=lambda r, devices: r - 1),
            "It is the part of the device before. Hint: devices are counted from 0.",
            "这是前一个设备的那份。提示：设备从 0 数起。"),
        "always device 0": Mistake(
            _share(which=lambda r, devices: 0),
            "Every device gets the part of device 0. Hint: part r.",
            "每个设备拿到的都是第 0 个设备的那份。提示：要第 r 份。"),
        "counted from the end": Mistake(
            _share(which=lambda r, devices: devices - 1 - r),
            "The devices are counted from the end. Hint: device 0 has the first heads.",
            "设备从后往前数了。提示：第 0 个设备管最前面的头。"),
        "one row": Mistake(
            _share(lambda matrix, r, devices: matrix[r], lambda matrix, r, devices: matrix[:, r]),
            "This is a single row or column. Hint: a device owns as many as all its heads are wide.",
            "这只是一行（一列）。提示：一个设备的所有头有多宽，就拿多少行（列）。"),
        "all parts": Mistake(
            lambda matrix, name, r, devices: matrix.chunk(devices, dim=1 if name == "W_o" else 0),
            "Rightly cut, but you return all parts. Hint: [r].",
            "切得对，但你返回了所有的份。提示：[r]。"),
        "transposed": Mistake(
            lambda matrix, name, r, devices: _share()(matrix, name, r, devices).T,
            "The right numbers, but transposed. Hint: the part is used as nn.Linear uses its matrix, (outputs, inputs).",
            "数是对的，但转置了。提示：切下来的部分还要当 nn.Linear 的矩阵用，形状是 (输出, 输入)。"),
    })


# ------------------------------------------------------------------ add_up(heads, columns, bias)
def _added(product=lambda Y, W: Y @ W.T, join=lambda parts: sum(parts), each=lambda bias, devices: 0,
           end=lambda bias, devices: bias):
    def add_up(heads, columns, bias):
        devices = len(heads)
        return join([product(Y, W) + each(bias, devices) for Y, W in zip(heads, columns)]) + end(bias, devices)
    return add_up


def _none(bias, devices):
    return 0


def _always(bias, devices):
    return bias


add_up_exercise = Exercise(
    right=_added(),
    cases={
        ("2 devices, width 6", "2 个设备，宽 6"): (
            [numbers(1, 3, 3, seed=i) for i in range(2)], [numbers(6, 3, seed=10 + i) for i in range(2)], numbers(6, seed=20)),
        ("4 devices, width 8, batch of 2", "4 个设备，宽 8，批量为 2"): (
            [numbers(2, 5, 2, seed=30 + i) for i in range(4)], [numbers(8, 2, seed=40 + i) for i in range(4)], numbers(8, seed=50)),
    },
    mistakes={
        "bias of every device": Mistake(
            _added(each=_always, end=_none),
            "Every device adds the bias, so the sum holds it once for each device. Hint: sum first, then the bias once.",
            "每个设备都加了偏置，求和之后偏置就有好几份。提示：先求和，再加一次偏置。"),
        "no bias": Mistake(
            _added(end=_none),
            "The sum is right, but the bias is missing. Hint: add it once, at the end.",
            "和是对的，但少了偏置。提示：最后加一次。"),
        "concatenated": Mistake(
            _added(join=lambda parts: torch.cat(parts, dim=-1), end=_none),
            "The devices' outputs stand side by side. Hint: each has the full width already; they are to be added.",
            "各设备的输出并排放在了一起。提示：每一份都已经是完整的宽度，应当相加。"),
        "concatenated with the bias": Mistake(
            _added(join=lambda parts: torch.cat(parts, dim=-1), each=_always, end=_none),
            "The devices' outputs stand side by side. Hint: each has the full width already; they are to be added, and the bias "
            "once.",
            "各设备的输出并排放在了一起。提示：每一份都已经是完整的宽度，应当相加，再加一次偏置。"),
        "stacked": Mistake(
            _added(join=torch.stack, end=_none),
            "The devices' outputs have an axis of their own now. Hint: sum over it.",
            "各设备的输出单独成了一维。提示：沿这一维求和。"),
        "averaged": Mistake(
            _added(join=lambda parts: sum(parts) / len(parts)),
            "This is the mean over the devices. Hint: the sum; each device computed something else, not the same again.",
            "这是各设备的平均。提示：要求和；各设备算的是不同的部分，不是同一件事算了几遍。"),
        "bias shared out, not all of it": Mistake(
            _added(end=lambda bias, devices: bias / devices),
            "Only a part of the bias arrives. Hint: the whole bias, once.",
            "只加上了一部分偏置。提示：整个偏置，加一次。"),
        "device 0 only": Mistake(
            _added(join=lambda parts: parts[0]),
            "The other devices' heads are missing. Hint: a loop, or sum, over all of them.",
            "别的设备的头没有算进来。提示：对所有设备循环，或者用 sum。"),
        "not transposed": Mistake(
            _added(product=lambda Y, W: Y @ W),
            "The matrix is used the wrong way round. Hint: nn.Linear stores (outputs, inputs) and computes Y @ W.T.",
            "矩阵用反了。提示：nn.Linear 存的是 (输出, 输入)，算的是 Y @ W.T。"),
    })


# ------------------------------------------------------------------ bytes_sent(batch, n, d, devices)
class _AnyNumber(Exercise):
    """An exercise whose answer is a number, whole or not."""
    def verdict(self, function):
        return super().verdict(lambda *given: _as_float(function(*given)))


def _as_float(result):
    if isinstance(result, torch.Tensor) and result.numel() == 1:
        result = result.item()
    return float(result) if isinstance(result, int) and not isinstance(result, bool) else result


def _sent(numbers=lambda batch, n, d: batch * n * d, share=lambda p: 2 * (p - 1) / p, each=4):
    return lambda batch, n, d, devices: float(each * numbers(batch, n, d) * share(devices))


bytes_exercise = _AnyNumber(
    right=_sent(),
    cases={
        ("batch 1, n = 6, d = 8, 2 devices", "批量 1，n = 6，d = 8，2 个设备"): (1, 6, 8, 2),
        ("batch 3, n = 100, d = 512, 4 devices", "批量 3，n = 100，d = 512，4 个设备"): (3, 100, 512, 4),
        ("batch 2, n = 7, d = 40, 5 devices", "批量 2，n = 7，d = 40，5 个设备"): (2, 7, 40, 5),
        ("a single device", "只有一个设备"): (2, 7, 40, 1),
    },
    mistakes={
        "numbers": Mistake(
            _sent(each=1),
            "This counts numbers. Hint: a float32 has 4 bytes.",
            "这是数的个数。提示：一个 float32 占 4 个字节。"),
        "what is handed over": Mistake(
            _sent(share=lambda p: 1),
            "This is the size of the tensor, which is what each device hands to the all-reduce. What it sends in a ring is something "
            "else. Hint: two rounds of devices - 1 parts.",
            "这是张量的大小，也就是每个设备交给全归约的量，不是它在环里发出的量。提示：两轮，每轮 devices - 1 份。"),
        "one round": Mistake(
            _sent(share=lambda p: (p - 1) / p),
            "This is one round of the ring. Hint: first the parts are summed, then the sums go round: two.",
            "这只是环上的一轮。提示：先把各份加起来，再把和传一圈，共两轮。"),
        "each to each": Mistake(
            _sent(share=lambda p: p - 1),
            "This sends the whole tensor to each of the other devices. Hint: in a ring only parts travel, each 1 / devices of it.",
            "这是把整个张量发给其他每个设备。提示：环上每次只传一份，即 1 / devices。"),
        "whole tensors in a ring, or all devices": Mistake(
            _sent(share=lambda p: 2 * (p - 1)),
            "This is what all devices send together, or what one would send if whole tensors went round. Hint: one device sends a "
            "part, 1 / devices of the tensor, in each step.",
            "这是所有设备加起来发出的量；或者说，每一步传的都是整个张量。提示：一个设备每一步只发一份，即 1 / devices。"),
        "one part": Mistake(
            _sent(share=lambda p: 1 / p),
            "This is one part of the tensor. Hint: a device sends 2 * (devices - 1) of them.",
            "这只是一份的大小。提示：一个设备要发 2 * (devices - 1) 份。"),
        "twice": Mistake(
            _sent(share=lambda p: 2),
            "One step too many in each round: a part that has passed all devices need not go on. Hint: devices - 1 steps.",
            "每轮多走了一步：走遍所有设备之后就不必再传。提示：devices - 1 步。"),
        "the batch forgotten": Mistake(
            _sent(lambda batch, n, d: n * d),
            "The batch is missing. Hint: the output is (batch, n, d).",
            "漏了批量。提示：输出是 (批量, n, d)。"),
        "scores": Mistake(
            _sent(lambda batch, n, d: batch * n * n),
            "This would be sent if the scores travelled. They stay where their head is. Hint: the output is (batch, n, d).",
            "这是传得分时的量。得分留在它那个头所在的设备上。提示：输出是 (批量, n, d)。"),
        "width of the share": Mistake(
            _sent(share=lambda p: 2 * (p - 1) / p**2),
            "This takes the tensor for 1 / devices as wide. Hint: what a device makes of its heads has the full width d.",
            "这里把张量的宽度当成了 d / devices。提示：一个设备由自己的头算出来的输出，宽度是完整的 d。"),
        "a whole block": Mistake(
            _sent(share=lambda p: 4 * (p - 1) / p),
            "This is twice too much. A whole block has two all-reduces, forward; its attention has one.",
            "多了一倍：整个块有两次全归约，其中注意力只有一次。"),
        "queries, keys and values": Mistake(
            _sent(share=lambda p: 6 * (p - 1) / p),
            "This is three times too much. Hint: queries, keys and values are not sent; only the output is summed.",
            "多了两倍。提示：查询、键、值都不传，要求和的只有输出。"),
    })
