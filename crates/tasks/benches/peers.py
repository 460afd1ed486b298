"""Run times predicted by scikit-learn, xgboost and lightgbm, on splits that the Rust side reads from the same files.

peers.py FOLDER SHARED SEED SPLITS: writes one CSV a data set into FOLDER (with a column for each split that SEED draws: 1 in the test
part), fits each peer on one thread, and prints a JSON line for each data set, split and peer.
"""

import json
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"

import lightgbm
import numpy
import pandas
import xgboost
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import mean_absolute_error, r2_score

BATCH = 1_000


def sets(folder: str, shared: str):
    """Name, table, target, features. The workload's table was written by the Rust side: it is that of `gswarm generate tasks`."""
    tasks = pandas.read_csv(f"{folder}/workload.csv")
    targets = {"tasks_cpu": "true_cpu_seconds", "tasks_gpu": "true_gpu_seconds"}
    for name, target in targets.items():
        yield name, tasks, target, [column for column in tasks if column not in targets.values()]
    silicon = pandas.read_csv(f"{shared}/data/aiconfigurator/silicon_sample.csv")
    left_out = {"id", "silicon_data_source", "silicon_ttft_ms", "silicon_tpot_ms"}
    for name, target in (("ttft", "silicon_ttft_ms"), ("tpot", "silicon_tpot_ms")):
        usable = silicon[silicon[target].notna()].reset_index(drop=True)
        yield name, usable, target, [column for column in silicon if column not in left_out]
    images = pandas.read_csv(f"{shared}/data/gentd26/requests_to_2024-11-28.csv")
    images = images[images.predict_status == "SUCCEED"].reset_index(drop=True)
    left_out = {"gmt_create", "predict_status", "exec_time_seconds"}
    yield "images", images, "exec_time_seconds", [column for column in images if column not in left_out]


def peers(trees: int):
    """Name, model, whether it takes categories as they are."""
    boosted = dict(n_estimators=trees, max_depth=7, learning_rate=0.1)
    quiet = dict(verbose=-1, num_threads=1)
    yield "sklearn forest", RandomForestRegressor(n_estimators=100, max_depth=15, n_jobs=1, random_state=0), False
    yield "sklearn forest, defaults", RandomForestRegressor(n_jobs=1, random_state=0), False
    for label, categories in (("", True), (", codes", False)):
        yield f"xgboost{label}", xgboost.XGBRegressor(**boosted, n_jobs=1, enable_categorical=categories), categories
        yield f"lightgbm{label}", lightgbm.LGBMRegressor(**boosted, num_leaves=128, **quiet), categories
        yield f"xgboost, defaults{label}", xgboost.XGBRegressor(n_jobs=1, enable_categorical=categories), categories
        yield f"lightgbm, defaults{label}", lightgbm.LGBMRegressor(**quiet), categories


def prepared(frame: pandas.DataFrame, features: list, test: numpy.ndarray, categories: bool):
    """Train and test features; texts that the training part lacks are missing in the test part."""
    table = frame[features].copy()
    for name in features:
        if table[name].dtype.kind not in "if":
            known = sorted(table.loc[~test, name].dropna().unique())
            column = pandas.Categorical(table[name].where(table[name].isin(known)), categories=known)
            table[name] = column if categories else pandas.Series(column.codes, dtype=float).replace(-1, numpy.nan)
    return table[~test], table[test]


def seconds_a_row(model, table: pandas.DataFrame) -> float:
    """Of processor time, in batches."""
    batch = pandas.concat([table] * (BATCH // len(table) + 1)).iloc[:BATCH]
    model.predict(batch)
    best = float("inf")
    for _ in range(7):
        begun = time.process_time()
        model.predict(batch)
        best = min(best, time.process_time() - begun)
    return best / BATCH


def main(folder: str, shared: str, seed: int, splits: int) -> None:
    for name, frame, target, features in sets(folder, shared):
        random = numpy.random.default_rng(seed)
        written = frame[[*features, target]].copy()
        for split in range(splits):
            test = numpy.zeros(len(frame), dtype=bool)
            test[random.permutation(len(frame))[: len(frame) // 5]] = True
            written[f"split{split}"] = test.astype(int)
        written.to_csv(f"{folder}/{name}.csv", index=False)
        print(json.dumps({"set": name, "target": target, "features": features, "rows": len(frame)}), flush=True)
        truth = frame[target].to_numpy()
        for trees in (100, 300):
            for split in range(splits):
                test = written[f"split{split}"].to_numpy() == 1
                for peer, model, categories in peers(trees):
                    if trees == 300 and ("defaults" in peer or "forest" in peer):
                        continue
                    train_part, test_part = prepared(frame, features, test, categories)
                    begun = time.process_time()
                    model.fit(train_part, truth[~test])
                    took = time.process_time() - begun
                    answers = model.predict(test_part)
                    result = {
                        "set": name,
                        "split": split,
                        "peer": peer,
                        "trees": trees,
                        "r2": r2_score(truth[test], answers),
                        "mae": mean_absolute_error(truth[test], answers),
                        "fit_s": took,
                        "row_us": seconds_a_row(model, test_part) * 1e6 if split == 0 else None,
                    }
                    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
