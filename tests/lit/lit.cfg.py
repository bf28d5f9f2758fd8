"""
lit's configuration. The folders here mirror the source folders; one file per pass.

Commands in RUN lines: `mlc opt …` and the other `mlc` commands run this checkout under this Python;
`filecheck`, `%python`. Features for REQUIRES: gpu, mlir-opt, ptxas, x86_64, aarch64.
"""

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

import lit.formats

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PASSED_ON = ("HOME", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "OMP_NUM_THREADS")

config: Any = globals()["config"]  # lit's TestingConfig, there when lit runs this file
config.name = "mlc"
config.suffixes = [".mlir", ".py"]
config.excludes = ["lit.cfg.py", "Inputs"]
config.test_format = lit.formats.ShTest(execute_external=False)
config.test_source_root = str(HERE)
config.test_exec_root = str(ROOT / "build" / "lit")

# lit passes almost nothing on, so that a stray MLC_ variable changes no test
config.environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
config.environment["PYTHONPATH"] = str(ROOT)
config.environment["MLC_CACHE_DIR"] = str(ROOT / "build" / "lit" / "cache")
for variable in PASSED_ON:
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]

COMMANDS = (
    "opt|run|show|build|check|explain|why-not|tile|blame|mutants|superopt|machine|rules|discover|bench"
    "|cache|--version"
)
MLC = rf"(?<![\w./%-])mlc (?=(?:{COMMANDS})\b)"
config.substitutions.append((MLC, f"{sys.executable} -m mlc "))
config.substitutions.append(("%python", sys.executable))

config.available_features.add(platform.machine())
if os.path.exists("/dev/nvidia0"):
    config.available_features.add("gpu")
if shutil.which("ptxas"):
    config.available_features.add("ptxas")
for mlir_opt in ("mlir-opt-19", "mlir-opt"):
    if shutil.which(mlir_opt):
        config.available_features.add("mlir-opt")
        config.substitutions.append((r"(?<![\w./%-])mlir-opt(?= )", mlir_opt))
        break
