"""MMLU (Hendrycks et al. 2021, arXiv 2009.03300): 57 subjects, four options.

``train`` is the hub's ``dev`` (five questions a subject): its ``auxiliary_train`` is made of other benchmarks, among
them ARC, and would put their questions into training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import LETTERS, Row, Task

# The benchmark's own grouping of subjects; what is not listed is "other".
_GROUPS = {
    "stem": "abstract_algebra astronomy college_biology college_chemistry college_computer_science "
            "college_mathematics college_physics computer_security conceptual_physics electrical_engineering "
            "elementary_mathematics high_school_biology high_school_chemistry high_school_computer_science "
            "high_school_mathematics high_school_physics high_school_statistics machine_learning",
    "humanities": "formal_logic high_school_european_history high_school_us_history high_school_world_history "
                  "international_law jurisprudence logical_fallacies moral_disputes moral_scenarios philosophy "
                  "prehistory professional_law world_religions",
    "social_sciences": "econometrics high_school_geography high_school_government_and_politics "
                       "high_school_macroeconomics high_school_microeconomics high_school_psychology human_sexuality "
                       "professional_psychology public_relations security_studies sociology us_foreign_policy",
}
_GROUP_OF = {subject: group for group, subjects in _GROUPS.items() for subject in subjects.split()}


def read(row: Mapping[str, Any]) -> Row:
    subject = row["subject"]
    return Row(row["question"], LETTERS[row["answer"]], tuple(row["choices"]), _GROUP_OF.get(subject, "other"),
               metadata={"subject": subject})


TASK = Task("mmlu", "57 subjects from school to profession, four options", read, hub="cais/mmlu", config="all",
            splits={"test": "test", "validation": "validation", "train": "dev"})
