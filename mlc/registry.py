"""Every pass: its name, and where it is. Nothing is imported until a pass is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass

PASSES = {
    "mlc-batch": "mlc.passes.tensor.batch:BatchPass",
    "mlc-differentiate": "mlc.passes.tensor.differentiate:DifferentiatePass",
    "mlc-expand-transforms": "mlc.passes.tensor.expand_transforms:ExpandTransformsPass",
    "mlc-inline-calls": "mlc.passes.tensor.inline_calls:InlineCallsPass",
    "mlc-autocast": "mlc.passes.tensor.autocast:AutocastPass",
    "mlc-inline-rules": "mlc.passes.tensor.inline_rules:InlineRulesPass",
    "mlc-mask-reductions": "mlc.passes.tensor.mask_reductions:MaskReductionsPass",
    "mlc-expand-partition": "mlc.passes.tensor.expand_partition:ExpandPartitionPass",
    "mlc-expand-positions": "mlc.passes.gpu.expand_positions:ExpandPositionsPass",
    "mlc-expand-library": "mlc.passes.tensor.expand_library:ExpandLibraryPass",
    "mlc-roll-loops": "mlc.passes.tensor.roll_loops:RollLoopsPass",
    "mlc-apply-rules": "mlc.passes.rules.apply_rules:ApplyRulesPass",
    "mlc-canonicalize": "mlc.passes.tensor.canonicalize:CanonicalizePass",
    "mlc-divide-factors": "mlc.passes.tensor.divide_factors:DivideFactorsPass",
    "mlc-exchange-sums": "mlc.passes.tensor.exchange_sums:ExchangeSumsPass",
    "mlc-fold-views": "mlc.passes.tensor.fold_views:FoldViewsPass",
    "mlc-form-convolutions": "mlc.passes.tensor.form_convolutions:FormConvolutionsPass",
    "mlc-fold-affine": "mlc.passes.tensor.fold_affine:FoldAffinePass",
    "mlc-reorder-contractions": "mlc.passes.tensor.reorder_contractions:ReorderContractionsPass",
    "mlc-merge-siblings": "mlc.passes.tensor.merge_siblings:MergeSiblingsPass",
    "mlc-winograd": "mlc.passes.tensor.winograd:WinogradPass",
    "mlc-check-parallel": "mlc.passes.tensor.check_parallel:CheckParallelPass",
    "mlc-find-parallel": "mlc.passes.tensor.find_parallel:FindParallelPass",
    "mlc-count-bits": "mlc.passes.tensor.count_bits:CountBitsPass",
    "mlc-raise-loops": "mlc.passes.tensor.raise_loops:RaiseLoopsPass",
    "mlc-chunk-folds": "mlc.passes.tensor.chunk_folds:ChunkFoldsPass",
    "mlc-prove-bounds": "mlc.passes.tensor.prove_bounds:ProveBoundsPass",
    "mlc-hoist-invariants": "mlc.passes.tensor.hoist_invariants:HoistInvariantsPass",
    "mlc-sum-after-loops": "mlc.passes.tensor.sum_after_loops:SumAfterLoopsPass",
    "mlc-multiply-before-loops": "mlc.passes.tensor.multiply_before_loops:MultiplyBeforeLoopsPass",
    "mlc-split-factors": "mlc.passes.tensor.split_factors:SplitFactorsPass",
    "mlc-sum-products": "mlc.passes.tensor.sum_products:SumProductsPass",
    "mlc-share-factors": "mlc.passes.tensor.share_factors:ShareFactorsPass",
    "mlc-prepack-loop-factors": "mlc.passes.tensor.prepack_loop_factors:PrepackLoopFactorsPass",
    "mlc-pack-before-loops": "mlc.passes.tensor.pack_before_loops:PackBeforeLoopsPass",
    "mlc-turn-walked-axes": "mlc.passes.tensor.turn_walked_axes:TurnWalkedAxesPass",
    "mlc-combine-late": "mlc.passes.tensor.combine_late:CombineLatePass",
    "mlc-cse": "mlc.passes.tensor.cse:CsePass",
    "mlc-dce": "mlc.passes.tensor.dce:DcePass",
    "mlc-drop-barriers": "mlc.passes.tensor.drop_barriers:DropBarriersPass",
    "mlc-rematerialise": "mlc.passes.plan.memory.rematerialise:RematerialisePass",
    "mlc-compare-indices": "mlc.passes.plan.fusion.compare_indices:CompareIndicesPass",
    "mlc-compare-updates": "mlc.passes.gpu.compare_updates:CompareUpdatesPass",
    "mlc-form-streams": "mlc.passes.plan.tiling.form_streams:FormStreamsPass",
    "mlc-choose-tiles": "mlc.passes.plan.tiling.choose_tiles:ChooseTilesPass",
    "mlc-form-tiles": "mlc.passes.plan.tiling.form_tiles:FormTilesPass",
    "mlc-split-folds": "mlc.passes.plan.tiling.split_folds:SplitFoldsPass",
    "mlc-choose-fusion": "mlc.passes.plan.fusion.choose_fusion:ChooseFusionPass",
    "mlc-form-kernels": "mlc.passes.plan.fusion.form_kernels:FormKernelsPass",
    "mlc-merge-reductions": ("mlc.passes.plan.fusion.merge_reductions:MergeReductionsPass"),
    "mlc-pad-strips": "mlc.passes.plan.tiling.pad_strips:PadStripsPass",
    "mlc-form-slice-nests": "mlc.passes.plan.form_slice_nests:FormSliceNestsPass",
    "mlc-form-nests": "mlc.passes.plan.form_nests:FormNestsPass",
    "mlc-check-before-loops": "mlc.passes.plan.check_before_loops:CheckBeforeLoopsPass",
    "mlc-merge-streams": "mlc.passes.gpu.merge_streams:MergeStreamsPass",
    "mlc-merge-rows": "mlc.passes.gpu.merge_rows:MergeRowsPass",
    "mlc-widen": "mlc.passes.plan.widen:WidenPass",
    "mlc-write-parts-in-place": "mlc.passes.plan.memory.write_parts_in_place:WritePartsInPlacePass",
    "mlc-donate-arguments": "mlc.passes.plan.memory.donate_arguments:DonateArgumentsPass",
    "mlc-schedule": "mlc.passes.plan.tiling.schedule:SchedulePass",
    "mlc-plan-buffers": "mlc.passes.plan.memory.plan_buffers:PlanBuffersPass",
    "mlc-place-barriers": "mlc.passes.plan.place_barriers:PlaceBarriersPass",
    "mlc-form-waves": "mlc.passes.plan.form_waves:FormWavesPass",
    "mlc-plan-to-tiles": "mlc.passes.tile.plan_to_tiles:PlanToTilesPass",
    "mlc-apply-words": "mlc.passes.tile.apply_words:ApplyWordsPass",
    "mlc-place-slots": "mlc.passes.tile.place_slots:PlaceSlotsPass",
    "mlc-insert-fences": "mlc.passes.tile.insert_fences:InsertFencesPass",
    "mlc-check-tiles": "mlc.passes.tile.check_tiles:CheckTilesPass",
    "mlc-plan-to-loops": "mlc.lowering.plan_to_loops:PlanToLoopsPass",
    "mlc-shift-lanes": "mlc.passes.loops.shift_lanes:ShiftLanesPass",
    "mlc-expand-math": "mlc.passes.math.expand_math:ExpandMathPass",
}
"""Name -> ``module:class``, in the order of the pipeline."""

OF_CALLS = ("mlc-expand-transforms", "mlc-inline-calls")
"""Those that read functions that use others; the others of the tensor level one function each."""

OF_LOOPS = ("mlc-check-tiles", "mlc-shift-lanes", "mlc-expand-math")
"""Those that read tile programs or loops; the others functions of the tensor or the plan level."""


DIALECTS = {
    "mlc": "mlc.dialects.tensor.registry:MLC",
    "mlc_tile": "mlc.dialects.tile.registry:MlcTile",
    "mlc_vec": "mlc.dialects.vec:MlcVec",
    "mlc_math": "mlc.dialects.functions:MlcMath",
    "mlc_par": "mlc.dialects.par:MlcPar",
    "mlc_gpu": "mlc.dialects.gpu:MlcGpu",
}
"""Prefix -> ``module:dialect``."""


def load(name: str) -> type[ModulePass]:
    """The class of the pass called `name`."""
    return cast("type[ModulePass]", _found(PASSES[name]))


def passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """For each pass what imports it, as xDSL's universe wants it."""
    return {name: _importer(place) for name, place in PASSES.items()}


def dialects() -> dict[str, Callable[[], Dialect]]:
    """For each dialect what imports it."""
    return {name: _importer(place) for name, place in DIALECTS.items()}


def _importer(place: str) -> Callable[[], Any]:
    return lambda: _found(place)


def _found(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)
