"""Time a large product and a triad on this machine's GPU, by PyTorch: `python -m` with the sizes of both."""

import json
import sys
import time
from collections.abc import Callable

WINDOW, WINDOWS = 0.2, 5  # seconds of one window, and their number


def of_pytorch(size: int, words: int, device: str = "cuda", window: float = WINDOW) -> dict[str, float]:
    """Seconds of a product and of a triad: the fastest of some windows."""
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    a, b, product = (torch.ones(size, size, device=device, dtype=torch.bfloat16) for _ in range(3))
    x, y, z = (torch.ones(words, device=device) for _ in range(3))

    def fastest(run: Callable[[], object]) -> float:
        run()
        wait()
        times = []
        for _ in range(WINDOWS):
            begin, count = time.perf_counter(), 0
            while count == 0 or time.perf_counter() - begin < window:
                run()
                wait()
                count += 1
            times.append((time.perf_counter() - begin) / count)
        return min(times)

    return {
        "product": fastest(lambda: torch.matmul(a, b, out=product)),
        "triad": fastest(lambda: torch.add(x, y, alpha=2.0, out=z)),
    }


if __name__ == "__main__":
    print(json.dumps(of_pytorch(int(sys.argv[1]), int(sys.argv[2]))))
