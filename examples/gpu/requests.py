"""Requests for config.yaml: as many as asked for, from a seed, of three workflows in turn by chance.

python3 requests.py 300 7 > requests.json
"""

import argparse
import json
import random
import sys

WORDS = ["a lighthouse", "two rivers", "the last train", "a cat in the rain", "snow at night", "an old map"]
WORDS += ["a red door"]


def text(draw: random.Random, least: int, most: int) -> str:
    """Words until there are as many letters as wanted: the random models read letters."""
    wanted, words = draw.randint(least, most), "Tell of"
    while len(words) < wanted:
        words += " " + draw.choice(WORDS)
    return words[:wanted]


def request(draw: random.Random, number: int, pictures: float) -> dict[str, object]:
    """One, of any of the workflows."""
    texts = (1 - pictures) / 2
    workflow = draw.choices(["picture", "answer", "review"], [pictures, texts, texts])[0]
    if workflow == "picture":
        inputs = {"wish": text(draw, 40, 400)}
        configs: dict[str, object] = {
            "write": {"max_length": draw.randint(16, 48)},
            "paint": {"steps": draw.randint(4, 8)},
        }
    elif workflow == "answer":
        inputs = {"question": text(draw, 40, 600)}
        configs = {
            "sort": {"max_length": draw.randint(8, 16)},
            "answer": {"max_length": draw.randint(12, 40)},
        }
    else:
        inputs = {"wish": text(draw, 40, 400)}
        configs = {
            "write": {"max_length": draw.randint(16, 48)},
            "judge": {"max_length": draw.randint(8, 24)},
        }
    return {
        "request_id": f"r{number:04}",
        "timestamp": 0.0,
        "workflow_id": workflow,
        "input_data": inputs,
        "node_configs": configs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes requests for config.yaml to the standard output.")
    parser.add_argument("count", type=int, help="how many")
    parser.add_argument("seed", type=int, help="the same seed gives the same requests")
    parser.add_argument(
        "pictures", type=float, nargs="?", default=1 / 3, help="the share of pictures; a third"
    )
    args = parser.parse_args()
    if args.count < 0 or not 0 <= args.pictures <= 1:
        parser.error("the count is 0 or more, and the share of pictures from 0 to 1")
    draw = random.Random(args.seed)
    json.dump(
        {"requests": [request(draw, number, args.pictures) for number in range(args.count)]}, sys.stdout
    )


if __name__ == "__main__":
    main()
