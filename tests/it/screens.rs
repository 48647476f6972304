//! Screens: a key script is played, everything settles, and what is on the screen is compared.
//!
//! The trace is made up, so that figures follow from its numbers alone; edits that no cost model has a say in.
#![cfg(feature = "tui")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier};
use retime::tui::{Depth, ScriptedScreen, Style, Theme};
use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;

use crate::support::engine;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

/// Two steps of 1 ms on one thread, each with ten operators that launch one kernel each on stream 7.
fn trace() -> String {
    let mut events = String::new();
    let mut add = |event: String| {
        let comma = if events.is_empty() { "" } else { "," };
        let _ = write!(events, "{comma}{event}");
    };
    let complete = |name: &str, category: &str, thread: u32, start: u32, length: u32, arguments: &str| {
        let process = u8::from(thread != 7);
        format!(
            r#"{{"ph":"X","name":"{name}","cat":"{category}","pid":{process},"tid":{thread},"ts":{start},"dur":{length},"args":{{{arguments}}}}}"#
        )
    };
    let names = ["aten::linear", "aten::relu", "aten::layer_norm", "aten::embedding", "aten::softmax"];
    let kernels = ["sm80_gemm_128x64", "relu_kernel", "layer_norm_kernel", "embedding_kernel", "softmax_kernel"];
    for step in 0..2 {
        let begin = 1000 + step * 1000;
        add(complete(&format!("ProfilerStep#{step}"), "user_annotation", 2, begin, 1000, ""));
        for index in 0..10 {
            let (start, which) = (begin + 20 + index * 95, index as usize % 5);
            let id = step * 100 + index + 1;
            let shape = r#""Input Dims":[[64,128],[128,128]],"Input type":["float","float"]"#;
            add(complete(names[which], "cpu_op", 2, start, 60, &format!(r#""External id":{id},{shape}"#)));
            add(complete("cudaLaunchKernel", "cuda_runtime", 2, start + 20, 10, &format!(r#""correlation":{id}"#)));
            let kernel = format!(r#""correlation":{id},"stream":7,"device":0,"External id":{id}"#);
            add(complete(kernels[which], "kernel", 7, start + 35, 70 - index, &kernel));
            let (total, at) = (1_000_000 * (1 + u64::from(index % 5)), start + 5);
            // Five allocations, then all of them back but the next.
            if index % 5 == 0 && (step, index) != (0, 0) {
                let at = at - 1;
                for back in 1..=5 {
                    let left = 1_000_000 * (5 - back);
                    add(format!(
                        r#"{{"ph":"i","s":"t","name":"[memory]","cat":"cpu_instant_event","pid":1,"tid":2,"ts":{at},"args":{{"Total Allocated":{left},"Bytes":-1000000,"Addr":{back},"Device Type":1,"Device Id":0}}}}"#
                    ));
                }
            }
            let address = 1 + index % 5;
            add(format!(
                r#"{{"ph":"i","s":"t","name":"[memory]","cat":"cpu_instant_event","pid":1,"tid":2,"ts":{at},"args":{{"Total Allocated":{total},"Bytes":1000000,"Addr":{address},"Device Type":1,"Device Id":0}}}}"#
            ));
        }
    }
    let device = r#"{"id":0,"name":"NVIDIA A100-SXM4-40GB","totalGlobalMem":42949672960,"numSms":108}"#;
    format!(r#"{{"schemaVersion":1,"deviceProperties":[{device}],"traceEvents":[{events}]}}"#)
}

fn style(depth: Depth) -> Style {
    Style { depth, ..Style::plain() }
}

fn open_with(style: &Style, size: (u16, u16), traces: usize, steps: &[&str]) -> ScriptedScreen {
    let engine = engine();
    let load = |_| engine.load_bytes(trace().as_bytes(), "made-up.json", &BuildOptions::default()).unwrap();
    let loaded = (0..traces).map(load).collect();
    let scenario = Scenario::parse(steps.iter().copied()).unwrap();
    let size = Size { width: size.0, height: size.1 };
    let mut screen = ScriptedScreen::new(Arc::clone(&engine), loaded, &scenario, style, size);
    screen.settle();
    screen
}

fn open(size: (u16, u16)) -> ScriptedScreen {
    open_with(&style(Depth::True), size, 1, &[])
}

fn play(screen: &mut ScriptedScreen, keys: &str) {
    screen.press(keys).unwrap();
    screen.settle();
}

fn rows(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    let row = |y: u16| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..area.height).map(row).collect()
}

fn text(screen: &ScriptedScreen) -> String {
    rows(&screen.draw()).iter().map(|row| row.trim_end()).collect::<Vec<_>>().join("\n")
}

/// The symbols, then a letter per cell for its style, then what the letters mean.
fn with_styles(screen: &ScriptedScreen) -> String {
    let buffer = screen.draw();
    let mut letters: BTreeMap<String, char> = BTreeMap::new();
    let mut grid = String::new();
    for y in 0..buffer.area.height {
        for x in 0..buffer.area.width {
            let cell = &buffer[(x, y)];
            let style = format!("{} on {} {:?}", cell.fg, cell.bg, cell.modifier);
            let next = char::from(b'a' + (letters.len() % 26) as u8);
            let next = if letters.len() < 26 { next } else { next.to_ascii_uppercase() };
            grid.push(*letters.entry(style).or_insert(next));
        }
        grid.push('\n');
    }
    let legend: Vec<String> = letters.iter().map(|(style, letter)| format!("{letter} {style}")).collect();
    format!("{}\n\n{grid}\n{}", text(screen), legend.join("\n"))
}

fn assert_shows(screen: &ScriptedScreen, wanted: &str) {
    let text = text(screen);
    assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
}

#[test]
fn two_knobs_make_a_map_whose_cells_are_put_in_force() {
    for size in SIZES {
        let mut screen = open(size);
        for keys in ["6", ":knob flops<enter>", ":across dram_bw 0.5..2x3<enter>", "<down><right><right>"] {
            play(&mut screen, keys);
        }
        for shown in ["flops ↓ dram_bw →: 27 points", "h host, k kernel", "×0.5        ×1          ×2", "█1.00 ms H"]
        {
            assert_shows(&screen, shown);
        }
        insta::assert_snapshot!(format!("map_{}x{}", size.0, size.1), with_styles(&screen));
        play(&mut screen, "A");
        // Narrow lists cut the second step short.
        assert_shows(&screen, "2 scale-d");
    }
}

#[test]
fn a_trace_opens_at_every_size() {
    for size in SIZES {
        insta::assert_snapshot!(format!("open_{}x{}", size.0, size.1), with_styles(&open(size)));
    }
}

#[test]
fn a_selected_kernel_shows_its_details_and_the_arrow_from_its_launch() {
    for size in SIZES {
        let mut screen = open(size);
        play(&mut screen, "/relu_kernel<enter>ww");
        insta::assert_snapshot!(format!("kernel_{}x{}", size.0, size.1), text(&screen));
    }
}

#[test]
fn an_edit_typed_at_the_prompt_re_times_the_iteration() {
    for size in SIZES {
        let mut screen = open(size);
        play(&mut screen, ":scale kind=kernel x2<enter>");
        insta::assert_snapshot!(format!("scaled_{}x{}", size.0, size.1), text(&screen));
    }
}

#[test]
fn what_explains_a_number_at_every_size() {
    let scripts = [
        ("steps", "I"),
        ("tracks", "T"),
        ("why_kernel", "/relu_kernel<enter>W"),
        ("why_header", "W"),
        ("gaps_closed", "3"),
        ("board", "t"),
        ("sweep_chart", "6<right>"),
        ("board_kernels", "tj<tab>"),
        ("board_batch", "b96"),
        ("board_devices", "g"),
        ("why_gap", "3W"),
        ("tree", "4E"),
        ("arrow_off_screen", "/softmax_kernel<enter>f"),
        ("kernels_filtered", "4:group kernel<enter>:filter name~relu<enter>"),
        ("why_group", "4W"),
    ];
    for size in SIZES {
        for (name, keys) in scripts {
            let mut screen = open(size);
            play(&mut screen, keys);
            insta::assert_snapshot!(format!("{name}_{}x{}", size.0, size.1), with_styles(&screen));
        }
    }
}

#[test]
fn another_iteration_is_modelled_and_the_scenario_stays() {
    let mut screen = open((120, 40));
    play(&mut screen, ":scale kind=kernel x2<enter>I");
    assert_shows(&screen, "median 1.00 ms");
    assert_shows(&screen, "modelled");
    play(&mut screen, "<esc>:iteration 1<enter>");
    assert_shows(&screen, "ProfilerStep#1 is modelled now");
    assert_shows(&screen, "1 scale kind=kernel x2");
    play(&mut screen, ":iteration 0<enter>");
    assert_shows(&screen, "ProfilerStep#0 is modelled now");
    play(&mut screen, ":iteration 2<enter>");
    assert_shows(&screen, "no iteration 2: 0 to 1");
}

#[test]
fn tables_are_grouped_sorted_and_narrowed_by_a_selector() {
    let mut screen = open((120, 40));
    play(&mut screen, "4");
    assert_shows(&screen, "linear");
    play(&mut screen, "/name~relu<enter>");
    assert_shows(&screen, "only name~relu");
    assert!(!text(&screen).contains("softmax"), "{}", text(&screen));
    play(&mut screen, "vv");
    assert_shows(&screen, "relu_kernel");
    play(&mut screen, "2");
    assert_shows(&screen, "only name~relu");
    play(&mut screen, "/<enter>4vv");
    assert_shows(&screen, "stream 7");
    play(&mut screen, ":filter name~nothing_like_it<enter>");
    assert_shows(&screen, "selects nothing in this iteration");
    assert_shows(&screen, "stream 7");
    play(&mut screen, "s");
    assert_shows(&screen, "· by above model");
    play(&mut screen, ":sort count<enter>:group family<enter>");
    assert_shows(&screen, "· by count");
    assert_shows(&screen, " family  ");
    play(&mut screen, ":group colour<enter>");
    assert_shows(&screen, "no `colour`: tree, operator, kernel, module, stream, family");
}

/// The row of the table that has the cursor.
fn chosen(screen: &ScriptedScreen) -> String {
    text(screen).lines().find_map(|line| line.split('│').find(|part| part.starts_with('▸'))).unwrap_or("").to_owned()
}

#[test]
fn operators_are_a_tree_that_opens_and_folds() {
    let mut screen = open((120, 40));
    play(&mut screen, "4");
    assert!(chosen(&screen).contains("▾ model"), "{}", text(&screen));
    assert!(!text(&screen).contains("relu_kernel"), "kernels are folded away at first");
    play(&mut screen, "<right>");
    assert!(chosen(&screen).contains("▾ forward"), "{}", chosen(&screen));
    play(&mut screen, "<down>");
    let operator = chosen(&screen);
    assert!(operator.contains("    ▸ "), "{operator}");
    play(&mut screen, "<enter>");
    assert!(chosen(&screen).contains("    ▾ "), "{}", chosen(&screen));
    assert_shows(&screen, "gemm 128×64");
    play(&mut screen, "<left>");
    assert_eq!(chosen(&screen), operator);
    play(&mut screen, "<left>");
    assert!(chosen(&screen).contains("▾ forward"));
    play(&mut screen, "E");
    for kernel in ["gemm 128×64", "relu_kernel", "layer_norm_kernel", "embedding_kernel", "softmax_kernel"] {
        assert_shows(&screen, kernel);
    }
    play(&mut screen, "C");
    assert!(!text(&screen).contains("relu_kernel"));
    play(&mut screen, "E<end>");
    let last = chosen(&screen);
    play(&mut screen, "<enter>");
    assert_shows(&screen, "── timeline");
    play(&mut screen, "24");
    assert_eq!(chosen(&screen), last, "the cursor stays where it was");
}

#[test]
fn rows_of_the_tree_add_up_to_the_rows_above_them() {
    let mut screen = open((120, 40));
    play(&mut screen, "4E");
    let micros =
        |row: &str| row.split(" µs").next().unwrap().split_whitespace().last().unwrap().parse::<f64>().unwrap();
    let shown = text(&screen);
    let rows: Vec<&str> = shown.lines().skip(4).collect();
    let model = rows.iter().find(|row| row.contains("▾ model")).unwrap();
    let kernels: f64 =
        rows.iter().filter(|row| row.contains("_kernel") || row.contains("gemm 128×64")).map(|row| micros(row)).sum();
    assert!((micros(model) - kernels).abs() < 0.5, "{} against {kernels}:\n{shown}", micros(model));
}

#[test]
fn a_filter_that_selects_nothing_leaves_the_one_before_it() {
    let mut screen = open((120, 40));
    play(&mut screen, "4/name~relu<enter>");
    play(&mut screen, ":filter name~nothing_like_it<enter>");
    assert_shows(&screen, "selects nothing in this iteration");
    assert_shows(&screen, "only name~relu");
}

/// Column and row where `wanted` first stands on the screen.
fn find(screen: &ScriptedScreen, wanted: &str) -> (usize, usize) {
    assert_shows(screen, wanted);
    let rows = rows(&screen.draw());
    let at = |(y, row): (usize, &String)| Some((row[..row.find(wanted)?].chars().count(), y));
    rows.iter().enumerate().find_map(at).unwrap()
}

#[test]
fn the_wheel_zooms_at_the_pointer() {
    let mut screen = open((120, 40));
    let (x, y) = find(&screen, "stream 7");
    let ruler = |screen: &ScriptedScreen| rows(&screen.draw())[4].clone();
    let column = x + 60;
    play(&mut screen, &format!("<click:{column},{y}>"));
    let before = find(&screen, "▼").0;
    let wide = ruler(&screen);
    play(&mut screen, &format!("<wheel-up:{column},{y}><wheel-up:{column},{y}><wheel-up:{column},{y}>"));
    assert_ne!(ruler(&screen), wide, "the scale changes");
    assert!(find(&screen, "▼").0.abs_diff(before) <= 1, "what is under the pointer stays there");
    play(&mut screen, &format!("<wheel-down:{column},{y}><wheel-down:{column},{y}><wheel-down:{column},{y}>"));
    assert_eq!(ruler(&screen), wide, "and back");
}

#[test]
fn a_drag_pans_by_as_many_cells() {
    let mut screen = open((120, 40));
    let (x, y) = find(&screen, "stream 7");
    let column = x + 50;
    play(&mut screen, &format!("<click:{column},{y}>wwww"));
    let before = find(&screen, "▼").0;
    play(&mut screen, &format!("<drag:{},{y},{},{y}>", column + 1, column - 11));
    let moved = find(&screen, "▼").0;
    let pressed = moved.abs_diff(column) <= 1;
    assert!(!pressed || before.abs_diff(column) > 1, "the cursor moves with the time under it");
    assert!(moved.abs_diff(column - 12) <= 1, "pressed at {column}, dragged by 12, now at {moved}");
}

#[test]
fn a_single_click_selects_and_a_double_click_opens() {
    let mut screen = open((120, 40));
    let (x, y) = find(&screen, "emb");
    let ruler = |screen: &ScriptedScreen| rows(&screen.draw())[4].replace(['▼', '┬'], "─");
    let scale = ruler(&screen);
    play(&mut screen, &format!("<click:{x},{y}>"));
    assert_shows(&screen, "launched by");
    assert_eq!(ruler(&screen), scale, "one click does not zoom");
    play(&mut screen, &format!("<click:{x},{y}><click:{x},{y}>"));
    assert_ne!(ruler(&screen), scale, "two fit the event");
    play(&mut screen, "2v");
    let (x, y) = find(&screen, "linear");
    play(&mut screen, &format!("<click:{x},{y}>"));
    assert!(chosen(&screen).contains("linear"));
    assert_shows(&screen, "── path");
    play(&mut screen, &format!("<click:{x},{y}><click:{x},{y}>"));
    assert_shows(&screen, "── timeline");
}

#[test]
fn a_lane_says_how_busy_it_is() {
    let mut screen = open((120, 40));
    let (x, y) = find(&screen, "stream 7");
    play(&mut screen, &format!("<click:{x},{y}>W"));
    assert_shows(&screen, "lane stream 7");
    assert_shows(&screen, "on the critical path");
}

#[test]
fn the_arrow_points_to_the_edge_behind_which_the_other_end_lies() {
    let mut screen = open((120, 40));
    play(&mut screen, "/softmax_kernel<enter>f");
    assert_shows(&screen, "◀");
    assert_shows(&screen, "launched by cudaLaunchKernel");
    play(&mut screen, "<enter>");
    assert_shows(&screen, "launches");
    assert_shows(&screen, "softmax_kernel");
    play(&mut screen, "f");
    assert_shows(&screen, "▶");
    play(&mut screen, "<enter>");
    assert_shows(&screen, "launched by cudaLaunchKernel");
}

#[test]
fn a_gap_names_the_edits_that_close_it_and_the_best_is_added() {
    let mut screen = open((120, 40));
    play(&mut screen, "3");
    assert_shows(&screen, "adds the best edit");
    assert_shows(&screen, "closed by, off the iteration: ");
    let closes =
        text(&screen).split("off the iteration: ").nth(1).unwrap().split(" −").next().unwrap().trim().to_owned();
    play(&mut screen, "A");
    assert_shows(&screen, &format!("1 {}", &closes[..closes.len().min(20)]));
}

/// Keys with what the screen says once each is pressed, by the view it is pressed in.
#[test]
fn every_key_does_in_every_view_what_the_help_says() {
    let everywhere = [
        ("?", "keys"),
        (":", "enter runs"),
        ("<C-p>", "find a command"),
        ("b", "resize-batch 64 ◂"),
        ("g", "H200"),
        ("t", "type to filter"),
        ("I", "iteration, ranges on the host · median"),
        ("W", "why this number"),
        ("<f2>", "messages"),
        ("<f9>", "theme"),
        ("m", "mouse off"),
        ("u", "nothing to undo"),
        ("<C-r>", "nothing to redo"),
        ("x", "there is no step yet"),
        ("e", "there is no step yet"),
        (".", "there was no edit yet"),
    ];
    for view in ["1", "2", "3", "4", "5", "6", "8", "9"] {
        for (key, shown) in everywhere {
            let mut screen = open((120, 40));
            play(&mut screen, view);
            play(&mut screen, key);
            assert_shows(&screen, shown);
        }
        for key in
            ["<left>", "h", "<right>", "l", "<up>", "k", "<down>", "j", "<S-right>", "<S-down>", "<tab>", "<home>"]
        {
            let mut screen = open((120, 40));
            play(&mut screen, view);
            play(&mut screen, key);
            assert!(!text(&screen).contains('✗'), "{key} in view {view} fails:\n{}", text(&screen));
            assert!(!screen.has_quit);
        }
    }
    let on_timeline = [
        ("/", "enter keeps"),
        ("f", "nothing is selected"),
        ("n", "nothing to search for yet"),
        ("M", "two marks are needed"),
        ("<space>", "◆"),
        ("/aten::linear<enter><enter>", "no launch joins this event"),
        ("T", "queue ≤"),
        ("/layer_norm_kernel<enter>H", "norm hidden"),
        ("P", "• "),
    ];
    for (key, shown) in on_timeline {
        let mut screen = open((80, 24));
        play(&mut screen, key);
        assert_shows(&screen, shown);
    }
    for key in ["w", "s", "d", "a", "c", "z", "}", "f"] {
        let mut screen = open((120, 40));
        play(&mut screen, "/layer_norm_kernel<enter><C-l>ww");
        let before = with_styles(&screen);
        play(&mut screen, key);
        assert!(with_styles(&screen) != before, "{key} changes nothing:\n{}", text(&screen));
    }
}

#[test]
fn the_analyses_of_layers_come_one_after_another() {
    let mut screen = open((120, 40));
    play(&mut screen, "L");
    for number in 1..=15 {
        play(&mut screen, "a");
        assert_shows(&screen, &format!("{number} of 15: "));
    }
    play(&mut screen, "a");
    assert_shows(&screen, "model › layer › kernel");
    play(&mut screen, ":layers kernels by name<enter>");
    let said = text(&screen);
    let row = said.lines().find(|line| line.contains("sm80_gemm_128x64")).unwrap();
    assert!(row.contains(" 2 ") && row.contains("135.0 µs") && row.contains("13.5"), "70 and 65 µs of 1 ms: {row}");
    insta::assert_snapshot!("layers_kernels_by_name_120x40", said);
    play(&mut screen, "v");
    assert_shows(&screen, "an analysis has one order");
    play(&mut screen, "<esc>");
    assert_shows(&screen, "model › layer › kernel");
    play(&mut screen, ":layers 16<enter>");
    assert_shows(&screen, "no analysis `16`");
    play(&mut screen, "<esc>:scale kind=kernel x0.5<enter>:layers 10<enter>");
    assert_shows(&screen, "67.50 µs");
}

#[test]
fn systems_lie_over_one_another_with_algorithms_and_measured_runs() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs.csv");
    // Karst allows 13.9 GFLOP/s by memory and 1.2 with the network: the first ran at 1.
    let table = "name,flop,bytes,network_bytes,seconds,system\nrun,1e9,1e9,1e9,1,Karst\nfar,1e9,1e9,1e9,1,elsewhere\n";
    std::fs::write(&runs, table).unwrap();
    let asked = format!(":roofline Karst mine=220,40,5 --points {}<enter>", runs.display());
    let mut screen = open((120, 40));
    play(&mut screen, &asked);
    let said = text(&screen);
    assert!(said.contains("runs of Karst off by 1290 %, under the network's roof too by 20 %"), "{said}");
    assert!(said.contains("1 of 2 runs: the others name another system"), "{said}");
    play(&mut screen, "<right><right><right><down>");
    insta::assert_snapshot!("systems_120x40", with_styles(&screen));
    play(&mut screen, "<esc>");
    assert!(text(&screen).contains("A100-40 fp32"), "the trace's own roofs again:\n{}", text(&screen));
    play(&mut screen, ":roofline Karst --algorithm fft --size 1048576<enter>");
    // Table 2.4: 5·20 / (32·7) FLOP per network byte, under 1.2 GB/s.
    let said = text(&screen);
    assert!(said.contains("FFT 1048576") && said.contains("536 MFLOP/s") && said.contains("network"), "{said}");
    for (asked, why) in [
        (":roofline Nowhere<enter>", "no device `Nowhere`"),
        (":roofline Karst --points nowhere.csv<enter>", "nowhere.csv"),
        (":roofline Karst --size 1<enter>", "expected a size from 4"),
    ] {
        play(&mut screen, asked);
        assert!(text(&screen).contains(why), "{asked}\n{}", text(&screen));
        play(&mut screen, "<esc>");
    }
}

#[test]
fn the_roofline_at_every_size_with_a_moved_roof_and_as_planes() {
    for size in SIZES {
        for (name, keys) in [("roofline", "5"), ("roof_moved", "5<down>+++"), ("planes", "5pvvv")] {
            let mut screen = open(size);
            play(&mut screen, keys);
            insta::assert_snapshot!(format!("{name}_{}x{}", size.0, size.1), text(&screen));
        }
    }
}

#[test]
fn a_moved_roof_becomes_a_step_and_is_the_devices_own_again() {
    let mut screen = open((120, 40));
    play(&mut screen, "5:set-roofs memory x2<enter>");
    assert_shows(&screen, "memory ×2");
    play(&mut screen, "<enter>");
    assert_shows(&screen, "no edits");
    play(&mut screen, "5A");
    assert_shows(&screen, "scale-device dram_bw x2");
    assert_shows(&screen, "3110 GB/s");
    play(&mut screen, "+++A");
    assert_shows(&screen, "6220 GB/s");
    play(&mut screen, "uu");
    assert_shows(&screen, "1555 GB/s");
    play(&mut screen, ":points galaxy<enter>");
    assert_shows(&screen, "a point is a kernel, operator, module or model");
}

#[test]
fn the_mouse_chooses_points_and_drags_roofs() {
    let mut screen = open((120, 40));
    play(&mut screen, "5");
    let place = |screen: &ScriptedScreen, wanted: &str| {
        let rows = rows(&screen.draw());
        let at = |row: &String| row.find(wanted).map(|byte| row[..byte].chars().count() as u16);
        (0..rows.len()).rev().find_map(|y| Some((at(&rows[y])?, y as u16))).unwrap()
    };
    let (x, y) = place(&screen, "1555 GB/s");
    screen.drag((x + 10, y), (x + 10, y - 2));
    assert_shows(&screen, "memory ×");
    play(&mut screen, "0");
    screen.click(place(&screen, "softmax_kernel"));
    assert_shows(&screen, "── softmax_kernel ──");
    // The point alone in its row of the chart.
    let (x, y) = place(&screen, "          G");
    screen.click((x + 10, y));
    assert_shows(&screen, "── gemm 128×64 ──");
}

#[test]
fn esc_closes_but_never_leaves() {
    let mut screen = open((80, 24));
    play(&mut screen, "3<esc><esc><esc>");
    assert_shows(&screen, "── timeline");
    assert!(!screen.has_quit);
    play(&mut screen, "q");
    assert!(screen.has_quit);
}

#[test]
fn what_undo_leaves_switched_off_is_not_called_in_force() {
    let mut screen = open((120, 40));
    play(&mut screen, ":scale kind=kernel x2<enter>xxu");
    assert_shows(&screen, "· 0 of 1 step in force");
    play(&mut screen, "u");
    assert_shows(&screen, "· 1 step in force");
}

#[test]
fn a_step_without_effect_is_shown_beside_the_number_and_in_the_list() {
    let mut screen = open((120, 40));
    play(&mut screen, ":remove name=nothing<enter>");
    assert_shows(&screen, "no effect");
    assert_shows(&screen, "nothing matches name=nothing");
}

#[test]
fn advice_ranks_edits_and_one_is_added() {
    for size in SIZES {
        let mut screen = open(size);
        play(&mut screen, "9");
        insta::assert_snapshot!(format!("advise_{}x{}", size.0, size.1), text(&screen));
    }
    let mut screen = open(SIZES[2]);
    play(&mut screen, "9");
    play(&mut screen, "jA");
    assert_shows(&screen, "1 cuda-graph");
    play(&mut screen, "u");
    assert_shows(&screen, "· no step in force");
    play(&mut screen, "vA");
    assert_shows(&screen, "x0.9");
}

#[test]
fn every_view_and_overlay_at_80x24() {
    let scripts = [
        ("path", "2"),
        ("gaps", "3"),
        ("operators", "4"),
        ("help", "?"),
        ("palette", "<C-p>undo"),
        ("completion", ":sca"),
        ("wrong_step", ":scale kind=kernel y<enter>"),
        ("messages", "<f2>"),
        ("devices", "gh200"),
        ("compact", "c"),
        ("sweep", "6"),
        ("advise", "9"),
        ("sensitivity", "9v"),
        ("confirm", ":scale kind=kernel x2<enter>Q"),
    ];
    for (name, keys) in scripts {
        let mut screen = open((80, 24));
        play(&mut screen, keys);
        insta::assert_snapshot!(format!("{name}_80x24"), text(&screen));
    }
}

#[test]
fn a_terminal_that_is_too_small_gets_a_plain_sentence() {
    let screen = open((20, 5));
    insta::assert_snapshot!("too_small_20x5", text(&screen));
}

#[test]
fn batch_doubled_gpu_swapped_both_undone_and_left_without_a_question() {
    let mut screen = open((120, 40));
    let untouched = text(&screen);
    play(&mut screen, "b<right><enter>");
    assert_shows(&screen, "batch 64 ▶ 128");
    play(&mut screen, "gh200<enter>");
    assert_shows(&screen, "A100-40 ▶ H200");
    play(&mut screen, "uu");
    assert_shows(&screen, "· no step in force");
    play(&mut screen, "<C-l>");
    assert_eq!(text(&screen), untouched);
    play(&mut screen, "Q");
    assert!(screen.has_quit);
}

#[test]
fn leaving_with_edits_asks_first() {
    let mut screen = open((80, 24));
    play(&mut screen, ":scale kind=kernel x2<enter>q");
    assert!(!screen.has_quit);
    assert_shows(&screen, "1 edit is not saved. Leave anyway?");
    play(&mut screen, "n");
    assert!(!screen.has_quit);
    play(&mut screen, "Qy");
    assert!(screen.has_quit);
}

#[test]
fn esc_takes_back_what_the_board_previews() {
    let mut screen = open((120, 40));
    let untouched = text(&screen);
    play(&mut screen, "b<right><right><right><esc><C-l>");
    assert_eq!(text(&screen), untouched);
}

#[test]
fn a_step_is_disabled_changed_moved_and_deleted() {
    let mut screen = open_with(&style(Depth::True), (160, 40), 1, &["scale kind=kernel x2", "scale kind=runtime x0.5"]);
    assert_shows(&screen, "1 scale kind=kernel x2");
    play(&mut screen, "<tab><up>x");
    assert_shows(&screen, "off");
    play(&mut screen, "xJ");
    assert_shows(&screen, "2 scale kind=kernel x2");
    play(&mut screen, "e<backspace>3<enter>");
    assert_shows(&screen, "2 scale kind=kernel x3");
    play(&mut screen, "d");
    assert!(!text(&screen).contains("kind=kernel"));
    play(&mut screen, "uuuu");
    assert_shows(&screen, "1 scale kind=kernel x2");
}

#[test]
fn a_wrong_line_stays_at_the_prompt_with_its_reason() {
    let mut screen = open((120, 40));
    play(&mut screen, ":scael kind=kernel x2<enter>");
    assert_shows(&screen, "did you mean `scale`?");
    assert_shows(&screen, ":scael kind=kernel x2");
}

#[test]
fn following_a_launch_leads_to_its_kernel_and_back() {
    let mut screen = open((120, 40));
    play(&mut screen, "/embedding_kernel<enter>");
    assert_shows(&screen, "launched by cudaLaunchKernel");
    play(&mut screen, "<enter>");
    assert_shows(&screen, "launches    embedding_kernel");
    play(&mut screen, "<enter>");
    assert_shows(&screen, "launched by cudaLaunchKernel");
}

#[test]
fn two_marks_measure_the_time_between_them() {
    let mut screen = open((120, 40));
    play(&mut screen, "/relu_kernel<enter><space>n<space>M");
    assert_shows(&screen, "between the marks");
    play(&mut screen, ":clear-marks<enter>M");
    assert_shows(&screen, "two marks are needed");
}

#[test]
fn several_traces_are_offered_and_switched() {
    let mut screen = open_with(&style(Depth::True), (80, 24), 2, &[]);
    assert_shows(&screen, "which trace");
    play(&mut screen, "<down><enter>:trace 1<enter>");
    assert!(!text(&screen).contains("which trace"));
    play(&mut screen, ":trace 9<enter>");
    assert_shows(&screen, "no trace 9: 1 to 2");
}

#[test]
fn what_was_selected_is_copied() {
    let mut screen = open((80, 24));
    play(&mut screen, "/softmax_kernel<enter>y");
    assert_eq!(screen.copied.as_deref(), Some("softmax_kernel"));
}

#[test]
fn without_colours_or_unicode_everything_is_still_said() {
    let plain = Style { is_ascii: true, ..style(Depth::Mono) };
    let mut screen = open_with(&plain, (80, 24), 1, &["scale kind=kernel x2"]);
    play(&mut screen, "/relu_kernel<enter>");
    let buffer = screen.draw();
    for cell in buffer.content() {
        assert!(cell.symbol().is_ascii(), "{:?}", cell.symbol());
        let plain = |colour| colour == Color::Reset;
        assert!(plain(cell.fg) && plain(cell.bg), "{cell:?}");
    }
    assert!(buffer.content().iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)), "bars are reversed");
    insta::assert_snapshot!("plain_80x24", text(&screen));
}

#[test]
fn every_view_in_every_theme_fits_from_the_least_to_the_largest_size() {
    for name in Theme::names(&[]) {
        for size in [(60, 16), (99, 20), (100, 31), (300, 100)] {
            let named = Style { theme: name.clone(), ..style(Depth::True) };
            let mut screen = open_with(&named, size, 1, &["scale kind=kernel x2"]);
            for (key, title) in
                [("1", "timeline"), ("2", "path"), ("3", "gaps"), ("4", "operators"), ("5", "roofline"), ("6", "sweep")]
            {
                play(&mut screen, key);
                assert_shows(&screen, &format!("── {title} "));
                assert_shows(&screen, "iteration 1.");
            }
        }
    }
}

#[test]
fn a_terminal_that_shrinks_and_grows_again_shows_the_same() {
    let mut screen = open((120, 40));
    play(&mut screen, "<down><down><right>");
    let before = text(&screen);
    for (width, height) in [(60, 16), (10, 3), (300, 100), (120, 40)] {
        screen.resize(Size { width, height });
        let _ = screen.draw();
    }
    assert_eq!(text(&screen), before);
}

#[test]
fn steps_count_as_saved_only_once_their_file_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut screen = open((80, 24));
    play(&mut screen, &format!(":scale kind=kernel x2<enter>:save {}/absent/a.toml<enter>", folder.path().display()));
    assert_shows(&screen, "absent");
    play(&mut screen, "Q");
    assert_shows(&screen, "1 edit is not saved");
    play(&mut screen, &format!("n:save {}/a.toml<enter>", folder.path().display()));
    play(&mut screen, "Q");
    assert!(screen.has_quit);
}

#[test]
fn host_overheads_of_another_source_are_named_and_undone() {
    let mut screen = open((120, 40));
    play(&mut screen, ":overheads mean<enter>");
    assert_shows(&screen, "host mean");
    assert_shows(&screen, "1 overheads mean");
    play(&mut screen, "u");
    assert!(!text(&screen).contains("host mean"));
}

#[test]
fn starting_over_takes_steps_marks_and_view_away_and_is_undone() {
    let mut screen = open((120, 40));
    let untouched = text(&screen);
    play(&mut screen, ":scale kind=kernel x2<enter>ww<space>3:fresh<enter>");
    assert_shows(&screen, "started over; u brings the steps back");
    play(&mut screen, "<C-l>");
    assert_eq!(text(&screen), untouched);
    play(&mut screen, "u");
    assert_shows(&screen, "1 scale kind=kernel x2");
}

#[test]
fn scenarios_stand_side_by_side_at_every_size() {
    let script =
        ":scale name~linear x2<enter>:scenario new slow<enter>:scenario new slower<enter>:scale kind=kernel x2<enter>8";
    for size in SIZES {
        for (name, keys) in [("compare", ""), ("compare_kinds", "v<left>r"), ("compare_why", "W")] {
            let mut screen = open(size);
            play(&mut screen, script);
            play(&mut screen, keys);
            insta::assert_snapshot!(format!("{name}_{}x{}", size.0, size.1), text(&screen));
        }
    }
}

#[test]
fn there_is_a_way_on_where_there_is_nothing_to_compare() {
    let mut screen = open((80, 24));
    play(&mut screen, "8");
    assert_shows(&screen, "nothing to compare with the base yet");
    play(&mut screen, "A");
    assert_shows(&screen, "the base has no steps");
    play(&mut screen, ":compare no/such/trace.json<enter>");
    assert_shows(&screen, "no/such/trace.json");
    assert_shows(&screen, "── compare");
    play(&mut screen, ":scale kind=kernel x3<enter>");
    assert_shows(&screen, "unnamed");
    assert_shows(&screen, "▲ slower");
}

#[test]
fn a_scenario_is_kept_switched_renamed_and_dropped() {
    let mut screen = open((120, 40));
    play(&mut screen, ":scale kind=kernel x2<enter>8a");
    assert_shows(&screen, "scenario new");
    play(&mut screen, "double<enter>");
    assert_shows(&screen, "scenario double");
    play(&mut screen, "u");
    assert_shows(&screen, "· no step in force");
    play(&mut screen, "U:scenario blank plain<enter>");
    assert_shows(&screen, "`plain` has no steps yet");
    play(&mut screen, "u");
    assert_shows(&screen, "nothing to undo");
    play(&mut screen, ":remove kind=runtime<enter>S");
    assert_shows(&screen, "remove kind=runtime");
    assert_shows(&screen, "in force");
    play(&mut screen, "doub<enter>");
    assert_shows(&screen, "`double` is in force");
    assert_shows(&screen, "1 scale kind=kernel x2");
    play(&mut screen, ":scenario switch plian<enter>");
    assert_shows(&screen, "did you mean `plain`?");
    play(&mut screen, "<esc>:scenario rename twice<enter>:scenario twice<enter>");
    assert_shows(&screen, "scenario twice");
    play(&mut screen, ":scenario new plain<enter>");
    assert_shows(&screen, "there is a scenario `plain` already");
    play(&mut screen, "<esc>8<right>");
    play(&mut screen, "D");
    assert_shows(&screen, "is gone");
    play(&mut screen, "Q");
    assert_shows(&screen, "1 edit is not saved");
}

#[test]
fn another_trace_is_a_column_and_may_be_the_reference() {
    let mut screen = open_with(&style(Depth::True), (120, 40), 2, &[]);
    play(&mut screen, "<esc>:trace 1<enter>:scale kind=kernel x2<enter>8");
    play(&mut screen, "<right>");
    let trace = text(&screen);
    assert!(trace.matches("made-up").count() >= 2, "{trace}");
    play(&mut screen, "r");
    assert_shows(&screen, "against made-up");
    play(&mut screen, ":reference bse<enter>");
    assert_shows(&screen, "did you mean `base`?");
    play(&mut screen, "<esc>:compare-by kind<enter>:compare-time device<enter>:compare-order time<enter>");
    assert_shows(&screen, "device: gemm");
    play(&mut screen, "<right><right>A");
    assert!(text(&screen).contains("scenario"), "{}", text(&screen));
}

#[test]
fn a_report_tells_what_stands_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.md");
    let mut screen = open_with(&style(Depth::True), (120, 40), 2, &[]);
    play(&mut screen, "<esc>:trace 1<enter>:scale kind=kernel x2<enter>:scenario new double|slow<enter>");
    play(&mut screen, &format!(":export {}<enter>", path.display()));
    let report = std::fs::read_to_string(&path).unwrap();
    for wanted in ["## Side by side", "against base", "| double\\|slow |", "slower", "measured", "aten::linear"] {
        assert!(report.contains(wanted), "{wanted} is not in\n{report}");
    }
}

#[test]
fn a_step_beyond_what_is_computed_is_said_not_shown() {
    let slower = ["scale * x1000000"; 2];
    let mut screen = open_with(&style(Depth::True), (160, 45), 1, &slower);
    for keys in ["", ":view path<enter>", ":view operators<enter>", ":view gaps<enter>", ":view sweep<enter>"] {
        play(&mut screen, keys);
        let shown = text(&screen);
        assert!(shown.contains("1 step without effect"), "{keys}: {shown}");
        let words: Vec<&str> = shown.split_whitespace().collect();
        let seconds = words.windows(2).filter(|pair| pair[1] == "s").filter_map(|pair| pair[0].parse::<f64>().ok());
        assert!(seconds.fold(0.0, f64::max) < 9_007_200.0, "{keys}: {shown}");
    }
}
