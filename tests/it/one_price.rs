//! A task has one price: what edits of attributes make of it does not depend on their order, and what is shown of its work is what
//! it was priced by.

use retime_core::analysis::edited::Edited;
use retime_core::analysis::lanes::Times;
use retime_core::analysis::operators::Level;
use retime_core::analysis::roofline::{Place, points};
use retime_core::cost::{Family, Work};
use retime_core::device::Precision;
use retime_core::graph::{BuildOptions, TaskKind};
use retime_core::scenario::{Resolved, Scenario};
use retime_core::sim::{Schedule, simulate};

use crate::support::engine;
use crate::support::jobs::{Opened, of_sample, of_shared};

const ON_GPU: &str = "dlrm-ddp-b256-on-v100.predicted.json.gz";

/// Edits of attributes, and one that repeats what others edit.
const ATTRIBUTES: [&str; 8] = [
    "resize-batch 1024",
    "mixed-precision bf16",
    "swap-gpu H100-SXM",
    "scale-device dram_bw x2",
    "scale-device flops x0.5",
    "scale kind=kernel x0.5",
    "swap-link NVLink4",
    "accumulate 3",
];

/// What all device work takes.
fn device_time(resolved: &Resolved) -> f64 {
    let graph = &resolved.graph;
    let traced = graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind.is_device());
    let traced = traced.filter(|&node| !resolved.is_removed(node)).map(|node| resolved.prediction(node).duration.0);
    let added = resolved.added.iter().filter(|added| added.kind.is_device()).map(|added| added.prediction.duration.0);
    traced.chain(added).sum::<i64>() as f64
}

fn assert_commute(opened: &Opened) {
    let base = device_time(&opened.resolve(&[]));
    assert!(device_time(&opened.resolve(&["scale-device dram_bw x2"])) < 0.99 * base, "{}", opened.name);
    for (at, first) in ATTRIBUTES.iter().enumerate() {
        for second in &ATTRIBUTES[at + 1..] {
            let [one, other] = [[*first, *second], [*second, *first]].map(|lines| device_time(&opened.resolve(&lines)));
            assert!((one / other - 1.0).abs() < 1e-3, "{}: {first}, {second}: {one} against {other}", opened.name);
        }
    }
}

#[test]
fn edits_of_attributes_give_the_same_in_any_order() {
    assert_commute(of_sample(ON_GPU));
    for path in ["resnet50-v100-dataloader/workers4.pt.trace.json.gz", "recsys-a100x8-rank3/control.json.gz"] {
        if let Some(opened) = of_shared(path) {
            assert_commute(opened);
        }
    }
}

/// Arithmetic and traffic of all work on the roofline plot.
fn load(resolved: &Resolved) -> (f64, f64) {
    let edited = Edited::of(resolved);
    let mut schedule = Schedule::default();
    simulate(&edited.timed, &mut schedule);
    let times = Times::Simulated { timed: &edited.timed, schedule: &schedule };
    let place = Place { device: &resolved.devices[0], factors: [1.0; 3], beside: &[] };
    let model = points((&edited.graph, &edited.works), times, &place, Level::Model).remove(0);
    (model.load.flop, model.load.bytes)
}

#[test]
fn rooflines_show_the_work_that_edits_made_of_the_traced_one() {
    let opened = of_sample(ON_GPU);
    let (flop, bytes) = load(&opened.resolve(&[]));
    let (narrow_flop, narrow_bytes) = load(&opened.resolve(&["mixed-precision bf16"]));
    assert!(narrow_bytes < 0.95 * bytes, "16 bits are half as many bytes: {narrow_bytes} of {bytes}");
    assert!((narrow_flop / flop - 1.0).abs() < 0.05, "and as much arithmetic: {narrow_flop} of {flop}");
    let (large, _) = load(&opened.resolve(&["resize-batch 1024"]));
    assert!(large > 3.0 * flop, "four times the batch: {large} of {flop}");
    assert!(load(&opened.resolve(&["remove family=gemm"])).0 < 0.5 * flop, "what was removed does nothing");
    let (merged, _) = load(&opened.resolve(&["fuse-optimizer"]));
    assert!((merged / flop - 1.0).abs() < 1e-9, "fused tasks count once: {merged} of {flop}");
}

#[test]
fn repeated_tasks_take_what_later_edits_make_of_those_they_repeat() {
    let opened = of_sample(ON_GPU);
    for edit in ["resize-batch 1024", "overheads mean", "scale-device dram_bw x2", "swap-gpu H100-SXM"] {
        let resolved = opened.resolve(&["accumulate 2", edit]);
        let copies = resolved.added.iter().filter(|added| added.kind == TaskKind::Kernel).count();
        assert!(copies > 0);
        let once = device_time(&opened.resolve(&[edit]));
        // What adds gradients up repeats nothing.
        let additions = resolved.added.iter().filter(|added| added.caller.as_deref() == Some("aten::add_"));
        let additions: f64 = additions.map(|added| added.prediction.duration.0 as f64).sum();
        let time = device_time(&resolved) - additions;
        assert!(time > 1.2 * once && time < 2.0 * once + 1.0, "{edit}: {time} of {once}");
    }
}

#[test]
fn a_multiple_holds_for_tasks_that_a_later_edit_adds() {
    let opened = of_sample(ON_GPU);
    for added in ["insert kernel probe 20us after name~addmm", "mixed-precision bf16"] {
        let scaled = "scale kind=kernel x0.5";
        let (first, last) =
            (device_time(&opened.resolve(&[scaled, added])), device_time(&opened.resolve(&[added, scaled])));
        assert!((first / last - 1.0).abs() < 1e-3, "{added}: {first} or {last}");
    }
}

#[test]
fn no_kernel_takes_less_than_roofs_allow_however_much_it_has_to_do() {
    let opened = of_sample(ON_GPU);
    let resolved = opened.resolve(&["resize-batch 1000000"]);
    let device = &resolved.devices[0];
    let peak = device.peak_rate(Precision::Fp32).0;
    let products = resolved.changes.iter().filter_map(|(node, of)| {
        let work = resolved.works.work(*node).filter(|work| work.family == Family::Gemm)?;
        Some((work.flop.0 / peak, of.duration.secs()))
    });
    let below: Vec<(f64, f64)> = products.filter(|(least, time)| *time < 0.999 * least).collect();
    assert!(below.is_empty(), "{below:?}");
}

/// By what the trace's own kernels compute in, and with factors that meet.
#[test]
fn an_operator_replaced_by_itself_is_as_it_was_and_by_another_of_other_arguments_is_left() {
    let Some(opened) = of_shared("recsys-a100x8-rank3/control.json.gz") else { return };
    let base = device_time(&opened.resolve(&[]));
    for name in ["aten::mm", "aten::addmm"] {
        let same = opened.resolve(&[&format!("replace name={name} with {name}")]);
        assert!((device_time(&same) - base).abs() < 0.5 && same.reports[0].is_met, "{name}");
    }
    let linear = opened.resolve(&["replace name=aten::addmm with aten::linear"]);
    assert!((device_time(&linear) - base).abs() < 0.5, "(bias, mat1, mat2) are no (input, weight, bias)");
    assert!(linear.reports[0].effects.iter().any(|said| said.text.contains("do not fit aten::linear")));
    let back = opened.resolve(&["replace name=aten::mm with aten::relu", "replace name=aten::mm with aten::mm"]);
    let whole = |resolved: &Resolved| {
        let is_whole = |work: &Work| work.family == Family::Gemm && work.precision == Precision::Fp32;
        resolved.graph.tasks.node_indices().filter(|&node| resolved.works.work(node).is_some_and(is_whole)).count()
    };
    assert!(whole(&back) <= whole(&opened.resolve(&[])), "the trace's products of 32-bit floats are rounded to TF32");
}

#[test]
fn lookups_are_batched_once() {
    let opened = of_sample(ON_GPU);
    let [once, twice] = [1, 2].map(|count| opened.resolve(&vec!["fuse-embedding-bags"; count]));
    assert!((device_time(&once) - device_time(&twice)).abs() < 0.5);
    assert_eq!(load(&once), load(&twice));
    assert!(twice.reports[1].effects.iter().any(|said| said.text.contains("no two lookups")));
}

#[test]
fn a_batched_lookup_is_resized_with_all_its_tables() {
    let opened = of_sample(ON_GPU);
    let narrow = "resize-op family=embedding 128->64";
    let [before, after] =
        [[narrow, "fuse-embedding-bags"], ["fuse-embedding-bags", narrow]].map(|lines| opened.resolve(&lines));
    assert!((device_time(&before) - device_time(&after)).abs() < 0.5);
    assert_eq!(load(&before), load(&after));
    let said = |resolved: &Resolved, at: usize| resolved.reports[at].summary.clone();
    assert_eq!(said(&before, 0), said(&after, 1));
}

#[test]
fn a_filter_larger_than_its_image_is_not_computed() {
    let Some(opened) = of_shared("vgg13-h100-train") else { return };
    let resized = opened.resolve(&["resize-op name~conv 3->300"]);
    let said = &resized.reports[0].effects;
    assert!(said.iter().any(|said| said.text.contains("cannot compute with a dimension of 300")), "{said:?}");
    assert!((device_time(&resized) - device_time(&opened.resolve(&[]))).abs() < 0.5);
}

/// Weights in fewer bits are read faster, and nothing else of a product changes.
#[test]
fn quantized_weights_make_no_product_slower() {
    let text = r#"{"deviceProperties": [{"name": "NVIDIA A100-SXM4-80GB", "id": 0}], "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 1, "ts": 110, "dur": 50, "args": {"External id": 1,
         "Input Dims": [[64], [64, 64], [64, 64], [], []], "Input type": ["float", "float", "float", "Scalar", "Scalar"]}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 120, "dur": 5,
         "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "ampere_sgemm_128x128_tn", "pid": 0, "tid": 7, "ts": 130, "dur": 100,
         "args": {"External id": 1, "device": 0, "stream": 7, "correlation": 1}}]}"#;
    let engine = engine();
    let loaded = engine.load_bytes(text.as_bytes(), "product.json", &BuildOptions::default()).unwrap();
    let time = |lines: &[&str]| {
        let scenario = Scenario::parse(lines.iter().copied()).unwrap();
        engine.evaluate(&loaded, &scenario, 0).summary.gpu_active_ns.0
    };
    for before in [&["mixed-precision bf16"][..], &["swap-gpu H100-SXM"], &[]] {
        let narrow = [before, &["quantize-weights int8"]].concat();
        assert!(time(&narrow) <= time(before) && time(before) > 0, "{before:?}: {} to {}", time(before), time(&narrow));
    }
}

#[test]
fn no_kernel_is_slower_on_a_gpu_that_is_worse_in_nothing() {
    let opened = of_sample("h100/bert-base-b16-fp32-cuda.kineto.json.gz");
    let starts = ["H100-SXM", "B200"].map(|id| engine().catalog.find(id).unwrap().kernel_start);
    let later = (starts[1] - starts[0]).0.max(0);
    for before in
        [&[][..], &["resize-batch 48"], &["mixed-precision bf16"], &["resize-batch 4", "mixed-precision bf16"]]
    {
        let moved: Vec<&str> = before.iter().copied().chain(["swap-gpu B200"]).collect();
        let (stayed, moved) = (opened.resolve(before), opened.resolve(&moved));
        let graph = opened.base.graph();
        let kernels = graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Kernel);
        let (mut checked, mut faster) = (0, 0);
        for node in kernels.filter(|&node| !stayed.is_removed(node)) {
            let [here, there] = [&stayed, &moved].map(|resolved| resolved.prediction(node).duration.0);
            let name = graph.names.get(graph.tasks[node].name);
            assert!(there <= here + later + 1, "{before:?}: {name} {here} ns, on a B200 {there} ns");
            checked += 1;
            faster += usize::from(there < here);
        }
        println!("{before:?}: {faster} of {checked} kernels faster");
        assert!(checked > 500 && faster > checked / 4, "{faster} of {checked}");
    }
}
