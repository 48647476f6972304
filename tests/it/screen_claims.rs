//! What two places of the screen say of one thing is the same, and every state can be left.
#![cfg(feature = "tui")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ratatui::layout::Size;
use retime::tui::{Depth, ScriptedScreen, Style};
use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;
use retime_core::trace::OpenOptions;

use crate::screen_samples::{open, text};
use crate::support::{engine, input, sample, shared};

fn play(screen: &mut ScriptedScreen, keys: &str) -> String {
    screen.press(keys).unwrap();
    screen.settle();
    text(screen)
}

fn vgg(steps: &[&str]) -> ScriptedScreen {
    open("vgg13-train-h100", (120, 40), steps)
}

/// The line that has all of `parts`.
fn line<'a>(shown: &'a str, parts: &[&str]) -> &'a str {
    let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
    let found = shown.lines().find(has_all);
    assert!(found.is_some(), "no line with {parts:?} in\n{shown}");
    found.unwrap()
}

#[test]
fn a_share_is_of_the_iteration_in_every_view() {
    let mut screen = vgg(&[]);
    line(&text(&screen), &["17.43 ms", "5.0 %", "MaxPool2d_0 bwd"]);
    line(&play(&mut screen, "4:group operator<enter>"), &["max_pool2d_with_indices_backward", "33.98 ms", "9.8 %"]);
    line(&play(&mut screen, "5"), &["33.98 ms", "9.8 %", "max_pool_backward_nchw"]);
    // Narrowed to a family, too: the ribbon has 42 % of convolutions.
    line(&play(&mut screen, "2]"), &["▸ conv", "146.8 ms", "42.2 %"]);
    line(&play(&mut screen, "4:group tree<enter>"), &["▾ model", "146.8 ms", "42.2 %"]);
    line(&play(&mut screen, "L"), &["▾ model", "146.8 ms", "42.2 %"]);
}

/// Layers are of one rank of eight, whose iteration takes 19.89 ms.
#[test]
fn a_share_of_one_rank_is_of_one_iteration() {
    line(&play(&mut open("dlrm-v100x8", (120, 40), &[]), "L"), &["▾ model", "1.26 ms", "6.3 %"]);
}

#[test]
fn kernels_that_are_written_alike_are_one_row() {
    let shown = text(&vgg(&[]));
    let rows: Vec<&str> = shown.lines().filter(|line| line.contains("Conv2d_1 to NHWC")).collect();
    assert_eq!(rows.len(), 1, "{rows:#?}");
}

/// What runs again does so in every recorded step: the sums are of one, as the iteration is.
#[test]
fn kernels_that_edits_add_are_summed_over_one_step() {
    let path = sample("h200/mlp-b4096-fp32-cuda.kineto.json.gz");
    let loaded = engine().load(&[path], &OpenOptions::default(), &BuildOptions::default()).unwrap().swap_remove(0);
    let scenario = Scenario::parse(["checkpoint phase=forward segments=4"]).unwrap();
    let added = engine().evaluate(&loaded, &scenario, 0).summary.device_time.added_ns;
    assert_eq!(added.to_string(), "1.05 ms");
    let style = Style { depth: Depth::True, ..Style::plain() };
    let size = Size { width: 120, height: 40 };
    let mut screen = ScriptedScreen::new(engine(), vec![loaded], &scenario, &style, size);
    screen.settle();
    line(&text(&screen), &["0 ns", "+1.04 ms", "gemm ×2"]);
}

#[test]
fn a_narrowed_list_of_operators_is_open_down_to_its_kernels() {
    let mut screen = vgg(&[]);
    let shown = play(&mut screen, "4]");
    line(&shown, &["wgrad 128×128"]);
    line(&shown, &["dgrad 256×64"]);
}

#[test]
fn lists_have_no_name_of_a_kernel_with_its_namespaces() {
    let mut screen = vgg(&["scale kind=kernel x0.5"]);
    for view in ["1", "2", "3", "4", "F", "8"] {
        let shown = play(&mut screen, view);
        let list: Vec<&str> = shown.lines().take(32).collect();
        let is_long = |line: &&&str| {
            ["sm80_xmma", "sm90_xmma", "evaluate_function", "at::native"].iter().any(|it| line.contains(it))
        };
        assert_eq!(list.iter().find(is_long), None, "view {view}");
    }
}

#[test]
fn an_edit_that_does_nothing_has_its_reason_and_no_figures() {
    let mut screen = vgg(&[]);
    let shown = play(&mut screen, "toverlap-comm");
    let row = line(&shown, &["▸overlap-comm: "]);
    assert!(!row.contains(" ms") && !row.contains('█') && !row.contains('…'), "{row}");
}

#[test]
fn what_does_not_fit_has_the_same_sign_on_the_board_and_in_the_header() {
    let mut screen = vgg(&[]);
    let shown = play(&mut screen, "b2048");
    line(&shown, &["▸resize-batch 2048", "✗ 136.6 GiB"]);
    line(&shown, &["iteration", "▶", "of 80 GiB ✗"]);
    line(&shown, &["✗ does not fit the device's memory"]);
}

#[test]
fn escape_leaves_family_range_and_event() {
    let mut screen = vgg(&[]);
    let untouched = text(&screen).lines().skip(11).map(str::to_owned).collect::<Vec<_>>();
    let shown = play(&mut screen, "]");
    assert!(shown.contains("conv only"), "{shown}");
    let shown = play(&mut screen, "<esc>");
    assert_eq!(shown.lines().skip(11).map(str::to_owned).collect::<Vec<_>>(), untouched);
    let shown = play(&mut screen, "<right><space><right><right><space><esc>");
    assert!(!shown.contains("range of") && !shown.contains("launched by"), "{shown}");
    let shown = play(&mut screen, "4");
    assert!(!shown.contains("only family"), "{shown}");
}

#[test]
fn enter_does_what_the_hint_says_on_a_stream_and_on_folded_threads() {
    let mut screen = vgg(&[]);
    line(&text(&screen), &["enter nearest"]);
    line(&play(&mut screen, "<enter>"), &["launched by"]);
    line(&play(&mut screen, "<esc><down><down>"), &["enter unfold"]);
    line(&play(&mut screen, "<enter>"), &["main"]);
}

#[test]
fn a_collective_that_did_not_change_is_drawn_once_with_its_wait() {
    let shown = text(&open("dlrm-v100x8", (120, 40), &["reshard-tables t0:r7"]));
    // Nothing of the iteration changed: ranks that have no part in the move have one row.
    let rank = |name: &str| shown.lines().position(|line| line.contains(name)).unwrap();
    let between: Vec<&str> =
        shown.lines().skip(rank("r1 4 streams")).take(rank("r2 4 streams") - rank("r1 4 streams")).collect();
    assert!(
        between.iter().any(|line| line.contains("all-to-all"))
            && between.iter().all(|line| !line.contains("simulated")),
        "{shown}"
    );
    // The wait is part of the bar on the simulated side, as it is on the measured one.
    let own: Vec<&str> =
        shown.lines().skip(rank("r0 4 streams")).take(4).filter(|line| line.contains("all-to-")).collect();
    assert_eq!(own.len(), 2, "{shown}");
}

fn open_file(path: PathBuf) -> ScriptedScreen {
    let engine = engine();
    let loaded = engine.load(&[path], &OpenOptions::default(), &BuildOptions::default()).unwrap();
    let style = Style { depth: Depth::True, ..Style::plain() };
    let size = Size { width: 120, height: 40 };
    let mut screen = ScriptedScreen::new(Arc::clone(&engine), loaded, &Scenario::default(), &style, size);
    screen.settle();
    screen
}

#[test]
fn kernels_of_streams_side_by_side_are_together_all_of_themselves() {
    let Some(path) = shared("recsys-a100x8-rank3") else { return };
    line(&play(&mut open_file(path), "L"), &["▾ model", "78.28 ms", "100.0 %"]);
}

#[test]
fn a_trace_of_a_host_alone_lists_its_operators() {
    let screen =
        open_file(Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_traces/mlp-b256-fp32-cpu.kineto.json.gz"));
    let shown = text(&screen);
    line(&shown, &["operators", "measured", "share"]);
    line(&shown, &[" ms", "■ addmm ×"]);
}

#[test]
fn whole_names_of_views_stand_on_the_bar_where_there_is_room() {
    let shown = text(&vgg(&[]));
    line(
        &shown,
        &[
            "1 timeline 2 path 3 gaps 4 operators 5 roofline L layers F memory 6 sweep 7 tables 8 compare 9 advise ? help",
        ],
    );
}

#[test]
fn the_title_of_a_row_gives_way_to_a_message_as_a_whole_or_with_a_sign() {
    let mut screen = open("vgg13-train-h100", (80, 24), &[]);
    let shown = play(&mut screen, "b1024");
    let rule = line(&shown, &["leaves some work as it was"]);
    assert!(rule.starts_with("── resize-batch 1024 ") || rule.contains('…'), "{rule}");
}

#[test]
fn advice_names_the_device_it_proposes() {
    let mut screen = vgg(&[]);
    let shown = play(&mut screen, "9");
    let hardware: Vec<&str> = shown.split(" hardware\n").nth(1).unwrap().lines().take(2).collect();
    let names = ["swap-gpu GB", "swap-gpu B", "swap-gpu MI", ": GB", ": B", ": MI"];
    assert!(hardware.iter().all(|row| names.iter().any(|name| row.contains(name))), "{hardware:#?}");
}

#[test]
fn what_was_unfolded_folds_again_by_the_key_that_the_hint_names() {
    let mut screen = open("dlrm-v100x8", (120, 40), &[]);
    let rows = |shown: &str| shown.lines().filter(|line| line.contains("▸ r")).count();
    let folded = rows(&text(&screen));
    let shown = play(&mut screen, "<down><enter>");
    assert!(rows(&shown) < folded + 1 && shown.contains("stream 7"), "{shown}");
    line(&shown, &["z fold"]);
    let shown = play(&mut screen, "<esc>z");
    assert_eq!(rows(&shown), folded, "{shown}");
}

#[test]
fn edits_that_are_tried_where_there_is_no_room_have_their_keys() {
    let mut screen = open("vgg13-train-h100", (40, 10), &[]);
    line(&play(&mut screen, "b"), &["letters filter", "enter add"]);
    line(&play(&mut screen, "<esc>3"), &["✗ no room for that at this size"]);
}

/// The window holds the step before and after the iteration, which the edit reaches, too.
#[test]
fn what_edits_add_counts_in_the_iteration_alone() {
    let mut screen = open_file(sample("h100/mlp-b4096-fp32-cuda.kineto.json.gz"));
    let shown = play(&mut screen, ":insert kernel probe 20us after name=aten::addmm & kind=kernel<enter>4");
    line(&shown, &["probe", "60.00 µs"]);
}

#[test]
fn advice_on_host_work_of_ages_has_sums_that_saturate() {
    let text = std::fs::read(input("host_of_ages.json")).unwrap();
    let loaded = engine().load_bytes(&text, "host_of_ages.json", &BuildOptions::default()).unwrap();
    let scenario = Scenario::parse(["scale-device flops x0.5", "scale * x1000000"]).unwrap();
    let (style, size) = (Style { depth: Depth::True, ..Style::plain() }, Size { width: 120, height: 40 });
    let mut screen = ScriptedScreen::new(engine(), vec![loaded], &scenario, &style, size);
    let shown = play(&mut screen, ":view advise<enter>");
    assert!(shown.contains("advise") && !shown.contains("NaN"), "{shown}");
}
