"""Empty tasks on Ray: how many a second, and how long a hop in a chain takes."""

import sys
import time

import ray


def main(chain: int) -> None:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    @ray.remote(num_cpus=0)
    def nothing(_before=None):
        return None

    ray.get([nothing.remote() for _ in range(200)])
    many = 5_000
    begun = time.perf_counter()
    ray.get([nothing.remote() for _ in range(many)])
    seconds = time.perf_counter() - begun
    print(f"Ray {ray.__version__}: {many} independent tasks: {many / seconds:.0f} executions/s", flush=True)
    begun = time.perf_counter()
    last = None
    for _ in range(chain):
        last = nothing.remote(last)
    ray.get(last)
    seconds = time.perf_counter() - begun
    print(f"Ray {ray.__version__}: a chain of {chain} tasks: {seconds * 1e3 / chain:.3f} ms a hop", flush=True)
    ray.shutdown()


main(int(sys.argv[1]))
