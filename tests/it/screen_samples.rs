//! The timeline of bundled samples, untouched and edited, at the sizes the screen is designed for.
#![cfg(feature = "tui")]

use std::sync::Arc;

use ratatui::layout::Size;
use retime::session::sample;
use retime::tui::{Depth, ScriptedScreen, Style};
use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;
use retime_core::trace::OpenOptions;

use crate::support::engine;

const SIZES: [(u16, u16); 4] = [(40, 10), (80, 24), (120, 40), (200, 60)];
/// An edit that no cost model has a say in, so that pictures do not change with one.
const EDIT: &str = "scale kind=kernel x0.5";

pub fn open(name: &str, size: (u16, u16), steps: &[&str]) -> ScriptedScreen {
    open_with_keys(name, size, steps, "")
}

/// The same with a keymap.
pub fn open_with_keys(name: &str, (width, height): (u16, u16), steps: &[&str], keymap: &str) -> ScriptedScreen {
    let engine = engine();
    let loaded = sample::find(name).unwrap().load(&engine, &BuildOptions::default()).unwrap();
    let scenario = Scenario::parse(steps.iter().copied()).unwrap();
    let style = Style { depth: Depth::True, keymap: keymap.to_owned(), ..Style::plain() };
    let mut screen = ScriptedScreen::new(Arc::clone(&engine), vec![loaded], &scenario, &style, Size { width, height });
    screen.settle();
    screen
}

pub fn text(screen: &ScriptedScreen) -> String {
    let buffer = screen.draw();
    let row = |y: u16| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..buffer.area.height).map(|y| row(y).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_timeline_untouched_and_edited_at_every_size() {
    for (name, sizes) in
        [("vgg13-train-h100", &SIZES[..]), ("dlrm-v100x8", &SIZES[2..3]), ("bert-small-h100", &SIZES[2..3])]
    {
        for &size in sizes {
            for (state, steps) in [("untouched", &[][..]), ("edited", &[EDIT][..])] {
                let screen = open(name, size, steps);
                insta::assert_snapshot!(format!("{name}_{state}_{}x{}", size.0, size.1), text(&screen));
            }
        }
    }
}

#[test]
fn header_ribbon_and_drawing_say_the_same() {
    for steps in [&[][..], &[EDIT][..]] {
        let shown = text(&open("vgg13-train-h100", (200, 60), steps));
        let after = shown.lines().nth(1).unwrap().split(" ms").nth(steps.len()).unwrap().rsplit(' ').next().unwrap();
        let ribbon = shown.lines().nth(2 + steps.len()).unwrap();
        assert!(ribbon.trim_end().ends_with(&format!("{after} ms")), "{after} in {ribbon}");
        assert!(shown.contains(&format!("{after} ms")) && shown.contains('┊'), "{shown}");
    }
}

#[test]
fn the_smallest_screen_takes_an_edit_a_batch_a_device_and_leaves() {
    let mut screen = open("vgg13-train-h100", (40, 10), &[]);
    for (keys, shown) in [
        (":scale kind=kernel x0.5<enter>", "▶"),
        ("b", "type to filter · 8 edits"),
        ("<down>", "\n▸resize"),
        ("<esc>g", "type to filter · 45"),
        ("<down>", "\n▸"),
        ("<esc>j", "no room"),
    ] {
        screen.press(keys).unwrap();
        screen.settle();
        assert!(text(&screen).contains(shown), "{keys}: no {shown:?} in\n{}", text(&screen));
    }
    screen.press("Qy").unwrap();
    screen.settle();
    assert!(screen.has_quit);
}

#[test]
fn a_family_is_looked_at_by_key_and_by_mouse_and_hidden_by_the_legend() {
    let mut screen = open("vgg13-train-h100", (120, 40), &[]);
    let before = text(&screen);
    screen.press("]").unwrap();
    screen.settle();
    assert!(text(&screen).contains("conv only") && text(&screen).contains('░'), "{}", text(&screen));
    screen.press("[").unwrap();
    screen.settle();
    screen.press("<click:15,2>").unwrap();
    screen.settle();
    assert!(text(&screen).contains("conv only"), "{}", text(&screen));
    screen.press("<click:15,2>").unwrap();
    screen.settle();
    let shown = text(&screen);
    assert_eq!(shown.lines().nth(6), before.lines().nth(6), "a second click looks at all again");
    let (y, line) = shown.lines().enumerate().filter(|(_, line)| line.contains("■ conv  ■")).last().unwrap();
    let x = line[..line.find("■ conv  ■").unwrap()].chars().count();
    screen.press(&format!("<click:{x},{y}>")).unwrap();
    screen.settle();
    assert!(text(&screen).contains("conv hidden"), "{}", text(&screen));
}

#[test]
fn a_drag_on_the_ruler_is_a_range_and_one_on_the_minimap_goes_along() {
    let mut screen = open("vgg13-train-h100", (120, 40), &[]);
    screen.press("<drag:40,4,60,4>").unwrap();
    screen.settle();
    assert!(text(&screen).contains("range of "), "{}", text(&screen));
    let ruler = |screen: &ScriptedScreen| text(screen).lines().nth(4).map(str::to_owned);
    let whole = ruler(&screen);
    screen.press("z").unwrap();
    let zoomed = ruler(&screen);
    assert_ne!(zoomed, whole);
    screen.press("<drag:40,5,90,5>").unwrap();
    assert_ne!(ruler(&screen), zoomed);
}

#[test]
fn the_line_between_steps_and_view_is_dragged() {
    let mut screen = open("vgg13-train-h100", (200, 60), &[]);
    let edge = |screen: &ScriptedScreen| text(screen).lines().nth(3).unwrap().chars().position(|c| c == '┬');
    assert_eq!(edge(&screen), Some(52));
    screen.press("<drag:52,20,60,20>").unwrap();
    assert_eq!(edge(&screen), Some(60));
}

/// Time in a unit as it is written on screen, in ns.
fn ns(figure: &str, unit: &str) -> f64 {
    let scale =
        [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)].into_iter().find(|(name, _)| *name == unit).unwrap().1;
    figure.replace('−', "-").parse::<f64>().unwrap() * scale
}

/// The first and the second time in a line.
fn times(line: &str) -> Vec<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_unit = |word: &str| ["s", "ms", "µs", "ns"].contains(&word);
    words.windows(2).filter(|pair| is_unit(pair[1])).map(|pair| ns(pair[0], pair[1])).collect()
}

#[test]
fn groups_of_the_path_add_up_to_the_iteration_of_the_header() {
    for (name, steps) in [
        ("vgg13-train-h100", &[][..]),
        ("vgg13-train-h100", &[EDIT][..]),
        ("vgg13-train-h100", &["resize-batch 256", "cuda-graph"][..]),
        ("bert-small-h100", &["mixed-precision bf16"][..]),
        ("dlrm-v100x8", &[EDIT][..]),
        ("dlrm-v100x8", &["scale kind=kernel & rank=2 x1.5"][..]),
    ] {
        for grouping in ["family", "layer", "cause"] {
            let mut screen = open(name, (120, 100), steps);
            screen.press(&format!("2:group {grouping}<enter>")).unwrap();
            screen.settle();
            let shown = text(&screen);
            let header = times(&shown.lines().nth(1).unwrap().replace('▶', " "));
            let first = shown.lines().position(|line| line.contains(" › ")).unwrap() + 1;
            let rows = shown.lines().skip(first).take_while(|line| !line.starts_with("──") && !line.is_empty());
            let mut sums = [0.0, 0.0];
            for row in rows {
                // A dash stands for no time.
                let columns: Vec<f64> = times(&row.replace(" – ", " 0 ns "));
                sums[0] += columns[0];
                sums[1] += columns.get(1).copied().unwrap_or_default();
            }
            let places = if steps.is_empty() { 1 } else { 2 };
            for (sum, whole) in sums.iter().zip(&header).take(places) {
                assert!((sum / whole - 1.0).abs() < 5e-3, "{name} {steps:?} by {grouping}: {sum} of {whole}\n{shown}");
            }
        }
    }
}

#[test]
fn views_of_what_takes_time_at_every_size() {
    for (name, keys) in [("path", "2"), ("path_open", "2<enter>"), ("gaps", "3"), ("operators", "4")] {
        for &size in &SIZES[1..] {
            for (state, steps) in [("untouched", &[][..]), ("edited", &[EDIT][..])] {
                let mut screen = open("vgg13-train-h100", size, steps);
                screen.press(keys).unwrap();
                screen.settle();
                insta::assert_snapshot!(format!("{name}_{state}_{}x{}", size.0, size.1), text(&screen));
            }
        }
    }
}

#[test]
fn a_title_sorts_and_a_group_unfolds_by_mouse() {
    let mut screen = open("vgg13-train-h100", (120, 40), &[EDIT]);
    let press = |screen: &mut ScriptedScreen, keys: &str| {
        screen.press(keys).unwrap();
        screen.settle();
        text(screen)
    };
    let at = |shown: &str, what: &str| {
        let (y, line) = shown.lines().enumerate().find(|(_, line)| line.contains(what)).unwrap();
        (line[..line.find(what).unwrap()].chars().count(), y)
    };
    let shown = press(&mut screen, "4");
    assert!(shown.contains("· by change"), "the most changed first once something is edited\n{shown}");
    let (x, y) = at(&shown, "count");
    let shown = press(&mut screen, &format!("<click:{x},{y}>"));
    assert!(shown.contains("· by count"), "{shown}");
    let (x, y) = at(&shown, "measured  simulated");
    let shown = press(&mut screen, &format!("<click:{x},{y}>"));
    assert!(shown.contains("· by device"), "{shown}");
    let shown = press(&mut screen, "2");
    let (x, y) = at(&shown, "▸ conv");
    let shown = press(&mut screen, &format!("<click:{x},{y}><click:{x},{y}>"));
    assert!(shown.contains("▾ conv"), "{shown}");
    let shown = press(&mut screen, "<left>");
    assert!(shown.contains("▸ conv"), "{shown}");
}
#[test]
fn every_view_takes_keys_and_clicks_at_any_height() {
    let traces =
        [0, 1].map(|rank| crate::support::sample(&format!("dlrm-ddp-b128-fp32-cpu-ws2-r{rank}.kineto.json.gz")));
    let engine = engine();
    for view in ["R", "T", "1", "2", "3", "4", "5", "6", "7", "8", "9", "0"] {
        let opened = engine.load(&traces, &OpenOptions::default(), &BuildOptions::default()).unwrap().swap_remove(0);
        let style = Style { depth: Depth::True, ..Style::plain() };
        let size = Size { width: 100, height: 30 };
        let mut screen = ScriptedScreen::new(Arc::clone(&engine), vec![opened], &Scenario::default(), &style, size);
        screen.press(view).unwrap();
        for height in (1..12).rev() {
            screen.resize(Size { width: 100, height });
            screen.press("<down><up><pagedown>").unwrap();
            screen.click((50, height / 2));
            let _ = screen.draw();
        }
    }
}

#[test]
fn layers_memory_and_roofs_at_every_size() {
    for (name, keys) in [("layers", "L<down><enter>"), ("memory", "F"), ("roofs", "5")] {
        for &size in &SIZES[1..] {
            for (state, steps) in [("untouched", &[][..]), ("edited", &[EDIT][..])] {
                let mut screen = open("vgg13-train-h100", size, steps);
                screen.press(keys).unwrap();
                screen.settle();
                insta::assert_snapshot!(format!("{name}_{state}_{}x{}", size.0, size.1), text(&screen));
            }
        }
    }
}

/// The figures of a row in a table, by its first word.
fn row_times(shown: &str, name: &str) -> Vec<f64> {
    assert!(shown.contains(name), "no {name} in\n{shown}");
    let row = shown.lines().find(|line| line.contains(name)).unwrap_or_default();
    times(row)
}

#[test]
fn layers_add_up_to_the_kernels_of_the_model_and_halve_with_them() {
    let mut screen = open("vgg13-train-h100", (120, 40), &[EDIT]);
    for (grouping, inner) in
        [("layer", "▸ VGG_0/Sequential_0/Conv2d_0 #0"), ("type", "▸ conv2d"), ("kernel", "▸ nchwToNhwcKernel")]
    {
        screen.press(&format!("L:group {grouping}<enter>")).unwrap();
        screen.settle();
        let shown = text(&screen);
        for row in [" model  ", inner] {
            let times = row_times(&shown, row);
            assert!((times[1] / times[0] - 0.5).abs() < 0.01, "{row} by {grouping}\n{shown}");
        }
    }
}

#[test]
fn operators_layers_and_the_lane_count_the_kernels_that_an_edit_adds() {
    let mut screen = open("vgg13-train-h100", (120, 40), &["insert kernel probe 2ms after name~addmm"]);
    let mut shown_after = |keys: &str| {
        screen.press(keys).unwrap();
        screen.settle();
        text(&screen)
    };
    let operators = row_times(&shown_after("4"), " model  ")[1];
    let layers = row_times(&shown_after("L"), " model  ")[1];
    // Busy, and on the critical path: one stream does all.
    let lane = row_times(&shown_after("1W"), "simulated    busy");
    for found in [layers, lane[0], lane[2]] {
        assert!((found / operators - 1.0).abs() < 1e-3, "{operators} in operators, {found}");
    }
    shown_after("<esc>4:group kernel<enter>");
    let added = shown_after("/probe<enter>");
    assert!(added.contains("▸probe"), "{added}");
}

#[test]
fn the_path_in_order_of_time_ends_where_the_drawn_iteration_does() {
    for steps in [&[][..], &[EDIT][..]] {
        let mut screen = open("vgg13-train-h100", (120, 600), steps);
        screen.press("2:group time<enter>").unwrap();
        screen.settle();
        let shown = text(&screen);
        let header = times(&shown.lines().nth(1).unwrap().replace('▶', " "));
        let rows = shown.lines().skip(7).map(times).take_while(|row| row.len() == 2);
        let last = rows.last().unwrap();
        let (end, whole) = (last[0] + last[1], header[steps.len()]);
        assert!((end / whole - 1.0).abs() < 0.01, "{steps:?}: ends at {end} of {whole}\n{shown}");
    }
}

#[test]
fn memory_at_the_peak_is_the_headers() {
    let mut screen = open("vgg13-train-h100", (120, 40), &[]);
    screen.press("F").unwrap();
    screen.settle();
    let shown = text(&screen);
    let header = shown.lines().nth(1).unwrap().rsplit_once("memory ").unwrap().1.split(' ').next().unwrap().to_owned();
    assert!(shown.contains(&format!("peak {header} GiB")), "{shown}");
}

#[test]
fn each_precision_in_use_has_a_roof_with_its_name() {
    let mut screen = open("vgg13-train-h100", (200, 60), &[]);
    screen.press("5").unwrap();
    screen.settle();
    let shown = text(&screen);
    for (roof, is_used) in [("fp32", true), ("TF32", true), ("fp64", false), ("fp8", false)] {
        assert_eq!(shown.contains(&format!("FLOP/s {roof}")), is_used, "{roof}\n{shown}");
    }
}

/// Where the iterations drawn in a row end, and the times said there.
fn ends(shown: &str) -> Vec<(usize, f64)> {
    let end = |line: &str| {
        let (bars, end) = line.split_once("┊ ")?;
        let mut words = end.split_whitespace();
        Some((bars.chars().count(), ns(words.next()?, words.next()?)))
    };
    shown.lines().filter_map(end).collect()
}

#[test]
fn compared_iterations_are_drawn_to_one_scale_above_their_differences() {
    for size in [(80, 24), (120, 40)] {
        let mut screen = open("vgg13-train-h100", size, &[EDIT]);
        screen.press("8").unwrap();
        screen.settle();
        let (shown, buffer) = (text(&screen), screen.draw());
        let ends = ends(&shown);
        assert_eq!(ends.len(), 2, "{size:?}\n{shown}");
        let y = shown.lines().position(|line| line.contains("┊ ")).unwrap() as u16;
        let is_bar = |&x: &u16| buffer[(x, y)].bg != buffer[(0, y)].bg;
        let left = (0..size.0).find(is_bar).unwrap() as f64;
        let width = |at: usize| ends[at].0 as f64 - left;
        let ratio = ends[1].1 / ends[0].1;
        assert!((width(1) - width(0) * ratio).abs() < 2.0, "{size:?}: {ends:?} from {left}\n{shown}");
        assert!(shown.lines().skip(usize::from(y) + 2).any(|line| line.contains('−')), "{size:?}\n{shown}");
    }
    let other = crate::support::sample("public/bert-small-mi300.json.gz").display().to_string();
    for size in [(80, 24), (120, 40), (200, 60)] {
        let mut screen = open("bert-small-h100", size, &[]);
        screen.press(&format!(":compare {other}<enter>")).unwrap();
        screen.settle();
        let shown = text(&screen);
        assert_eq!(ends(&shown).len(), 2, "{size:?}\n{shown}");
    }
}

/// Measured collectives contain waiting for late ranks, simulated ones do not: what only waits is not said to get faster.
#[test]
fn the_list_of_kernels_compares_what_was_replayed_not_what_waited() {
    let shown = text(&open("dlrm-v100x8", (150, 45), &["resize-batch 1024"]));
    let rows: Vec<&str> = shown.lines().skip_while(|line| !line.contains("replayed  simulated")).collect();
    let listed: Vec<&&str> = rows.iter().skip(1).take_while(|row| row.contains('■')).collect();
    assert!(listed.len() > 3 && listed.iter().all(|row| row.contains('+')), "a larger batch is faster\n{shown}");
}
