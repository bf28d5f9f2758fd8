"""Placeholder."""
from functools import lru_cache
from dataclasses import replace
from mlc.dialects.target.known import AVX512
from mlc.runtime.llvm import host_cpu, host_triple
@lru_cache(maxsize=1)
def host_isa():
    n,f=host_cpu()
    return replace(AVX512,name="host",triple=host_triple(),cpu_name=n,features=",".join(f"{'+' if on else '-'}{key}" for key, on in f.items()))
