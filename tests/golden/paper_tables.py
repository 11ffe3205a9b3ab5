"""Tables 1, 5, 6 and 7 of the paper, as printed."""

from typing import NamedTuple


class Cell(NamedTuple):
    """A cell of table 1: accuracy in percent, Brier in points, each with its subscript."""

    accuracy: float
    accuracy_sd: float
    brier: float
    brier_sd: float


TABLE_1 = {
    ("Qwen3-4B", "zero_shot"): Cell(60.1, 1.0, 0.245, 0.004),
    ("Qwen3-4B", "retrieval"): Cell(65.9, 2.1, 0.218, 0.006),
    ("Qwen3-8B", "zero_shot"): Cell(55.8, 0.4, 0.261, 0.004),
    ("Qwen3-8B", "retrieval"): Cell(64.7, 2.2, 0.213, 0.008),
    ("Qwen3-32B", "zero_shot"): Cell(64.6, 1.0, 0.234, 0.007),
    ("Qwen3-32B", "retrieval"): Cell(72.8, 3.0, 0.179, 0.008),
    ("R1-Distill-Qwen-7B", "zero_shot"): Cell(58.7, 1.2, 0.256, 0.012),
    ("R1-Distill-Qwen-7B", "retrieval"): Cell(51.2, 5.1, 0.318, 0.015),
    ("Llama-3.2-3B", "zero_shot"): Cell(56.1, 2.1, 0.375, 0.013),
    ("Llama-3.2-3B", "retrieval"): Cell(56.5, 1.6, 0.292, 0.006),
    ("Llama-3.1-8B", "zero_shot"): Cell(66.1, 1.0, 0.250, 0.006),
    ("Llama-3.1-8B", "retrieval"): Cell(60.0, 1.9, 0.230, 0.010),
    ("Gemma-3-4B", "zero_shot"): Cell(54.5, 0.2, 0.297, 0.002),
    ("Gemma-3-4B", "retrieval"): Cell(56.2, 2.5, 0.262, 0.008),
    ("Gemma-3-27B", "zero_shot"): Cell(70.5, 0.2, 0.214, 0.001),
    ("Gemma-3-27B", "retrieval"): Cell(71.1, 3.2, 0.184, 0.008),
    ("Ministral-8B", "zero_shot"): Cell(52.9, 1.2, 0.281, 0.004),
    ("Ministral-8B", "retrieval"): Cell(56.8, 2.9, 0.242, 0.010),
}

STRONG = {  # accuracy in the strong bin, zero-shot and agent
    "Qwen3-4B": (45.9, 73.5),
    "Qwen3-8B": (61.7, 80.9),
    "Qwen3-32B": (65.6, 79.3),
    "R1-Distill-Qwen-7B": (54.2, 50.9),
    "Llama-3.2-3B": (53.7, 51.8),
    "Llama-3.1-8B": (64.7, 78.3),
    "Gemma-3-4B": (53.8, 56.6),
    "Gemma-3-27B": (70.6, 87.2),
    "Ministral-8B": (42.1, 66.3),
}

TABLE_5 = {  # (accuracy, Brier) of runs 1-5
    ("Qwen3-4B", "zero_shot"): [(59.8, 0.238), (60.5, 0.247), (59.0, 0.247), (59.7, 0.247), (61.6, 0.245)],
    ("Qwen3-4B", "retrieval"): [(68.8, 0.212), (66.1, 0.226), (66.7, 0.212), (64.2, 0.220), (63.7, 0.223)],
    ("Llama-3.2-3B", "zero_shot"): [(53.0, 0.396), (57.9, 0.367), (54.9, 0.377), (57.4, 0.362), (57.3, 0.374)],
    ("Llama-3.2-3B", "retrieval"): [(56.5, 0.285), (54.9, 0.296), (55.1, 0.296), (58.6, 0.296), (57.4, 0.286)],
    ("Qwen3-8B", "zero_shot"): [(56.1, 0.260), (55.2, 0.263), (55.6, 0.265), (55.9, 0.254), (56.3, 0.263)],
    ("Qwen3-8B", "retrieval"): [(66.1, 0.199), (62.5, 0.215), (62.0, 0.221), (66.7, 0.216), (66.1, 0.213)],
    ("Ministral-8B", "zero_shot"): [(53.7, 0.279), (54.6, 0.275), (51.9, 0.281), (51.9, 0.283), (52.3, 0.287)],
    ("Ministral-8B", "retrieval"): [(60.7, 0.225), (56.9, 0.244), (58.3, 0.241), (53.7, 0.252), (54.2, 0.245)],
    ("Llama-3.1-8B", "zero_shot"): [(66.5, 0.253), (66.2, 0.248), (66.1, 0.245), (64.4, 0.259), (67.1, 0.245)],
    ("Llama-3.1-8B", "retrieval"): [(56.9, 0.246), (59.3, 0.224), (61.1, 0.233), (61.6, 0.224), (61.1, 0.222)],
    ("R1-Distill-Qwen-7B", "zero_shot"): [(58.7, 0.267), (57.8, 0.236), (60.5, 0.258), (59.2, 0.257), (57.5, 0.261)],
    ("R1-Distill-Qwen-7B", "retrieval"): [(54.2, 0.321), (58.3, 0.299), (50.0, 0.309), (45.4, 0.336), (48.2, 0.327)],
    ("Gemma-3-4B", "zero_shot"): [(54.2, 0.301), (54.6, 0.296), (54.6, 0.296), (54.6, 0.297), (54.6, 0.296)],
    ("Gemma-3-4B", "retrieval"): [(60.2, 0.248), (54.6, 0.269), (53.7, 0.263), (56.0, 0.264), (56.5, 0.263)],
    ("Gemma-3-27B", "zero_shot"): [(70.4, 0.215), (70.4, 0.215), (70.8, 0.213), (70.4, 0.214), (70.4, 0.213)],
    ("Gemma-3-27B", "retrieval"): [(69.9, 0.180), (75.5, 0.176), (66.7, 0.196), (72.2, 0.180), (71.3, 0.186)],
    ("Qwen3-32B", "zero_shot"): [(63.0, 0.239), (64.8, 0.222), (64.8, 0.236), (65.3, 0.236), (65.3, 0.236)],
    ("Qwen3-32B", "retrieval"): [(72.7, 0.176), (75.5, 0.170), (69.0, 0.190), (70.8, 0.183), (75.9, 0.174)],
}

TABLE_6 = {  # strong, weak, none, total
    "Qwen3-4B": (55, 63, 98, 216),
    "Llama-3.2-3B": (25, 6, 185, 216),
    "Qwen3-8B": (65, 86, 65, 216),
    "Ministral-8B": (32, 116, 68, 216),
    "Llama-3.1-8B": (20, 170, 26, 216),
    "R1-Distill-Qwen-7B": (60, 113, 40, 213),
    "Gemma-3-4B": (75, 137, 4, 216),
    "Gemma-3-27B": (62, 121, 33, 216),
    "Qwen3-32B": (100, 87, 29, 216),
}

NET = {  # section 7.3: recoveries minus regressions over five runs, the eight models with per-run logs
    "Qwen3-8B": 43,
    "Qwen3-4B": 19,
    "Gemma-3-4B": 0,
    "Llama-3.2-3B": -3,
    "Ministral-8B": -6,
    "Llama-3.1-8B": -27,
    "Gemma-3-27B": -10,
    "R1-Distill-Qwen-7B": -19,
}
