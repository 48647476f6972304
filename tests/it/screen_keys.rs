//! Keys that mean the same in every pane: searching, hints, undoing.
#![cfg(feature = "tui")]

use ratatui::style::Modifier;
use retime::tui::ScriptedScreen;

use crate::screen_samples::{open, open_with_keys, text};

/// What opens each pane.
const PANES: [&str; 12] = ["", "2", "3", "4", "5", "6", "8", "9", "R", "t", "g", "<tab>"];

fn play(screen: &mut ScriptedScreen, keys: &str) {
    screen.press(keys).unwrap();
    screen.settle();
}

fn assert_shows(screen: &ScriptedScreen, wanted: &str) {
    assert!(text(screen).contains(wanted), "no {wanted:?} in\n{}", text(screen));
}

/// What is drawn reversed, line by line.
fn reversed(screen: &ScriptedScreen) -> Vec<String> {
    let buffer = screen.draw();
    let line = |y: u16| {
        let cells = (0..buffer.area.width).map(|x| &buffer[(x, y)]);
        cells
            .filter(|cell| cell.modifier.contains(Modifier::REVERSED))
            .map(ratatui::buffer::Cell::symbol)
            .collect::<String>()
    };
    (0..buffer.area.height).map(line).filter(|line| !line.is_empty()).collect()
}

#[test]
fn no_letter_typed_into_a_search_executes_a_command_and_esc_leaves_all_as_it_was() {
    for pane in PANES {
        let mut screen = open("vgg13-train-h100", (120, 40), &["scale kind=kernel x0.5"]);
        play(&mut screen, pane);
        let before = text(&screen);
        play(&mut screen, "/");
        for letter in (' '..='~').filter(|&letter| letter != '<') {
            play(&mut screen, &letter.to_string());
            assert!(text(&screen).contains("esc goes back"), "{letter:?} in {pane:?} closes the search");
            assert!(!screen.has_quit);
        }
        play(&mut screen, "<esc>");
        assert_eq!(text(&screen), before, "pane {pane:?}");
    }
}

#[test]
fn a_search_goes_to_the_first_hit_as_it_is_typed_marks_all_and_goes_on_with_n() {
    let mut screen = open("vgg13-train-h100", (120, 40), &[]);
    play(&mut screen, "4/poo");
    assert_shows(&screen, "1 of ");
    assert!(reversed(&screen).iter().filter(|line| line.contains("poo")).count() > 1, "{:?}", reversed(&screen));
    let chosen = |screen: &ScriptedScreen| {
        let shown = text(screen);
        shown.lines().find(|line| line.starts_with('▸')).map(str::to_owned)
    };
    let first = chosen(&screen);
    assert!(first.as_ref().is_some_and(|line| line.contains("pool")), "{first:?}");
    play(&mut screen, "<enter>n");
    let second = chosen(&screen);
    assert!(second != first && second.as_ref().is_some_and(|line| line.contains("pool")), "{second:?}");
    assert_shows(&screen, "2 of ");
    play(&mut screen, "N");
    assert_eq!(chosen(&screen), first);
    play(&mut screen, "/nothing has this name<enter>");
    assert_shows(&screen, "no row shown has");
}

#[test]
fn a_search_on_the_timeline_marks_bars_and_a_selector_narrows_rows() {
    let mut screen = open("vgg13-train-h100", (120, 40), &[]);
    assert!(!text(&screen).contains('●'));
    play(&mut screen, "/max_pool_backward");
    assert!(text(&screen).contains('●') && text(&screen).contains("1 of 5"), "{}", text(&screen));
    play(&mut screen, "<esc>");
    assert!(!text(&screen).contains('●'));
    play(&mut screen, "2/family=pooling");
    assert_shows(&screen, "enter narrows the rows to it");
    play(&mut screen, "<enter>");
    assert_shows(&screen, "only family=pooling");
    play(&mut screen, "/<enter>");
    assert!(!text(&screen).contains("only family=pooling"));
}

#[test]
fn steps_and_board_are_searched_too() {
    let mut screen = open("vgg13-train-h100", (120, 40), &["scale kind=kernel x0.5", "mixed-precision bf16"]);
    play(&mut screen, "<tab>/bf16<enter>");
    assert_shows(&screen, "▸2 mixed-precision");
    play(&mut screen, "<tab>t/swap gpu h2");
    assert_shows(&screen, "swap-gpu H200");
    assert!(!text(&screen).contains("resize-batch 64"), "{}", text(&screen));
}

#[test]
fn hints_stay_whatever_is_chosen_or_said_and_do_what_they_say_when_clicked() {
    for size in [(80, 24), (120, 40), (200, 60)] {
        for pane in PANES {
            let mut screen = open("vgg13-train-h100", size, &[]);
            play(&mut screen, pane);
            for keys in ["", "<down><right>", "f", ":nonsense that fails because it is no command<enter><esc>"] {
                play(&mut screen, keys);
                let shown = text(&screen);
                let hints =
                    ["/ find", "enter ", "type to filter", "choose a step", "along it", "another knob", "< > move"];
                let has_hint = hints.iter().any(|hint| shown.contains(hint)) || shown.contains("← → point");
                assert!(has_hint, "{pane:?} {keys:?} {size:?}\n{shown}");
            }
        }
    }
    let mut screen = open("vgg13-train-h100", (120, 40), &[]);
    let at = |screen: &ScriptedScreen, wanted: &str| {
        let shown = text(screen);
        let (y, line) = shown.lines().enumerate().find(|(_, line)| line.contains(wanted)).unwrap();
        (line[..line.find(wanted).unwrap()].chars().count(), y)
    };
    let (x, y) = at(&screen, "/ find");
    play(&mut screen, &format!("<click:{x},{y}>"));
    assert_shows(&screen, "esc goes back");
    play(&mut screen, "<esc>");
    let (x, y) = at(&screen, "g swap the GPU");
    play(&mut screen, &format!("<click:{x},{y}>"));
    assert_shows(&screen, "16-bit TF/s");
}

#[test]
fn undo_says_what_it_undid_and_the_list_of_edits_leads_back_to_any() {
    let mut screen = open("vgg13-train-h100", (120, 40), &[]);
    for line in ["scale kind=kernel x0.5", "remove kind=memset"] {
        play(&mut screen, &format!(":{line}<enter>"));
    }
    play(&mut screen, "u");
    assert_shows(&screen, "undone: added remove kind=memset · 1 step in force");
    play(&mut screen, "<C-r>");
    assert_shows(&screen, "redone: added remove kind=memset · 2 steps in force");
    play(&mut screen, "u:scale kind=memcpy x0.5<enter>Z");
    for shown in
        ["1 as it was opened", "2 added scale kind=kernel x0.5", "3 added scale kind=memcpy x0.5", "4 set aside"]
    {
        assert_shows(&screen, shown);
    }
    play(&mut screen, "<down><enter>");
    assert_shows(&screen, "· 2 steps in force");
    assert_shows(&screen, "2 remove kind=memset");
}

#[test]
fn what_is_looked_at_is_written_as_it_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let mut screen = open("vgg13-train-h100", (120, 40), &["scale family=pooling x0.5"]);
    let write = |screen: &mut ScriptedScreen, name: &str| {
        play(screen, &format!("X{}<enter>", folder.path().join(name).display()));
        assert_shows(screen, "wrote ");
    };
    play(&mut screen, "4v/family=pooling<enter>");
    let first = text(&screen).lines().find(|line| line.starts_with('▸')).unwrap().to_owned();
    let name = first.split_whitespace().nth(1).unwrap().to_owned();
    write(&mut screen, "rows.csv");
    let csv = read("rows.csv");
    assert!(csv.lines().nth(1).unwrap().contains(&name), "{first}\n{csv}");
    assert!(!csv.contains("conv"), "narrowed rows only: {csv}");
    write(&mut screen, "rows.json");
    let json: serde_json::Value = serde_json::from_str(&read("rows.json")).unwrap();
    assert_eq!((json["view"].as_str(), json["only"].as_str()), (Some("operators"), Some("family=pooling")));
    assert_eq!(json["steps"][0], "scale family=pooling x0.5");
    assert!(json["edited_ns"].as_i64().unwrap() < json["base_ns"].as_i64().unwrap());
    assert_eq!(json["rows"].as_array().unwrap().len(), csv.lines().count() - 1);
    write(&mut screen, "rows.md");
    assert!(read("rows.md").contains("; only family=pooling\n\n| "));
    write(&mut screen, "screen.txt");
    assert!(read("screen.txt").contains(first.trim_end()));
    write(&mut screen, "screen.svg");
    let svg = read("screen.svg");
    assert!(svg.starts_with("<svg") && svg.contains(&name) && svg.len() < 100_000, "{}", svg.len());
    play(&mut screen, "1");
    write(&mut screen, "trace.json");
    assert!(read("trace.json").contains("traceEvents"));
}

#[test]
fn a_range_is_summed_by_family_and_kernel_and_marks_have_names() {
    let mut screen = open("vgg13-train-h100", (120, 40), &[]);
    play(&mut screen, "<space>");
    assert_shows(&screen, "mark the other end");
    play(&mut screen, "<esc>:clear-marks<enter><drag:20,4,104,4>");
    // Nearly the whole iteration: the ribbon's families in its order.
    for shown in ["range of 34", "conv 14", "measured: ", "z zooms to it"] {
        assert_shows(&screen, shown);
    }
    let line = text(&screen).lines().find(|line| line.starts_with(" conv 14")).unwrap().to_owned();
    let places: Vec<_> = ["conv", "movement", "elementwise", "pooling"].map(|family| line.find(family)).to_vec();
    assert!(places.is_sorted() && places.iter().all(Option::is_some), "{line}");
    play(&mut screen, ":clear-marks<enter>/max_pool_backward<enter><space>nn<space>");
    for shown in ["range of ", "pooling", "z zooms to it"] {
        assert_shows(&screen, shown);
    }
    play(&mut screen, ":bookmark backward begins<enter>");
    assert_shows(&screen, "◆backward begins");
    play(&mut screen, "<drag:40,4,60,4>");
    assert_shows(&screen, "◆backward begins");
    play(&mut screen, "'");
    assert_shows(&screen, "without a name");
    play(&mut screen, "backw<enter>");
    assert_shows(&screen, "◆backward begins");
}

#[test]
fn a_key_that_meant_something_else_says_so_once() {
    let mut screen = open("vgg13-train-h100", (120, 40), &[]);
    play(&mut screen, "8n");
    assert_shows(&screen, "a keeps the steps");
    play(&mut screen, "n");
    assert!(!text(&screen).contains("a keeps the steps in"), "said twice:\n{}", text(&screen));
    assert_shows(&screen, "nothing to search for yet");
    play(&mut screen, "6v");
    assert_shows(&screen, "K chooses the knob");
}

/// As a new user would: each of the jobs from the first screen in at most six keys, a typed name or command counting as one.
#[test]
fn twelve_jobs_take_at_most_six_keys_each() {
    let folder = tempfile::tempdir().unwrap();
    let report = format!(":export {}", folder.path().join("report.html").display());
    let other = format!(":compare {}", crate::support::sample("public/bert-small-mi300.json.gz").display());
    let jobs: [(&str, &[&str], &str); 12] = [
        ("first what-if", &["t", "<down>", "<enter>"], "added "),
        ("biggest family and its cause", &["]", "4", "W"], "conv"),
        ("worst gap", &["3", "W"], "gap of "),
        ("best batch that fits", &["6"], "fits up to 512"),
        ("best GPU", &["g"], "per sample"),
        ("what bf16 brings", &["t", "bf16"], "−43 %"),
        ("straggler and its cost", &[":samples dlrm-v100x8", "<enter>", "R"], "late"),
        ("move a table", &[":samples dlrm-v100x8", "<enter>", "7"], "tables"),
        ("compare two traces", &[&other, "<enter>"], "verdict"),
        ("why this number", &["W"], "why this number"),
        ("export for a colleague", &[&report, "<enter>"], "wrote "),
        ("resume yesterday", &["Z"], "as it was opened"),
    ];
    for (job, keys, shown) in jobs {
        assert!(keys.len() <= 6, "{job}");
        let mut screen = open("vgg13-train-h100", (120, 40), &[]);
        for key in keys {
            play(&mut screen, key);
        }
        assert!(text(&screen).contains(shown), "{job}: no {shown:?} in\n{}", text(&screen));
    }
}

#[test]
fn the_boards_devices_have_what_a_thousand_steps_cost_where_prices_are_given() {
    use retime::tui::{Depth, Style};
    let engine = crate::support::engine();
    let sample = retime::session::sample::find("vgg13-train-h100").unwrap();
    let loaded = sample.load(&engine, &retime_core::graph::BuildOptions::default()).unwrap();
    let base = loaded.replay.summary.steady_ns.0 as f64;
    // By a name that `--gpu` understands; one that it does not is told.
    let prices = "h100 = 3.6\nGPU-of-mine = 2.0\n".to_owned();
    let style = Style { depth: Depth::True, prices, ..Style::plain() };
    let size = ratatui::layout::Size { width: 120, height: 40 };
    let none = retime_core::scenario::Scenario::default();
    let mut screen = ScriptedScreen::new(engine, vec![loaded], &none, &style, size);
    screen.settle();
    play(&mut screen, "<f2>");
    assert_shows(&screen, "prices.toml: no device `GPU-of-mine`");
    play(&mut screen, "<esc>");
    play(&mut screen, "g");
    assert_shows(&screen, "1000 steps");
    // 3.6 an hour is a thousandth a second.
    let cost = format!("{:.3}", base / 1e9);
    let row = text(&screen).lines().find(|line| line.contains("H100-SXM ◂")).unwrap().to_owned();
    assert!(row.contains(&cost), "{cost} in {row}");
}

#[test]
fn the_boards_devices_have_names_on_the_narrowest_screen() {
    let mut screen = open("vgg13-train-h100", (80, 24), &[]);
    play(&mut screen, "g");
    assert_shows(&screen, "▸GB200 ");
    assert_shows(&screen, "H100-SXM ◂");
}

/// A search is kept at the hit that it had found while it was typed.
#[test]
fn enter_keeps_the_hit_of_a_search_on_the_timeline() {
    let mut screen = open("vgg13-train-h100", (120, 40), &[]);
    play(&mut screen, "/wgrad");
    assert_shows(&screen, "1 of ");
    play(&mut screen, "<enter>");
    assert_shows(&screen, "1 of ");
}

/// The screen in a style, with an edit in force.
fn open_in(style: &retime::tui::Style, (width, height): (u16, u16)) -> ScriptedScreen {
    let engine = crate::support::engine();
    let sample = retime::session::sample::find("vgg13-train-h100").unwrap();
    let loaded = sample.load(&engine, &retime_core::graph::BuildOptions::default()).unwrap();
    let edited = retime_core::scenario::Scenario::parse(["scale kind=kernel x0.5"]).unwrap();
    let size = ratatui::layout::Size { width, height };
    let mut screen = ScriptedScreen::new(engine, vec![loaded], &edited, style, size);
    screen.settle();
    screen
}

#[test]
fn without_unicode_nothing_becomes_a_question_mark_and_without_colours_the_cursor_is_marked() {
    use retime::tui::Style;
    let ascii = Style { is_ascii: true, ..Style::plain() };
    for pane in PANES {
        let [mut plain, mut flat] = [Style::plain(), ascii.clone()].map(|style| open_in(&style, (120, 40)));
        for screen in [&mut plain, &mut flat] {
            play(screen, pane);
            play(screen, "<down>/o");
        }
        let (plain, flat) = (plain.draw(), flat.draw());
        for (before, after) in plain.content().iter().zip(flat.content()) {
            assert!(after.symbol().is_ascii(), "{:?}", after.symbol());
            assert!(after.symbol() != "?" || before.symbol() == "?", "{:?} in {pane:?}", before.symbol());
        }
        let marked = plain.content().iter().any(|cell| cell.modifier.contains(Modifier::REVERSED));
        assert!(marked, "no cursor in {pane:?}");
    }
}

#[test]
fn the_theme_picker_previews_and_esc_brings_the_old_one_back() {
    let mut screen = open("vgg13-train-h100", (120, 40), &[]);
    let ground = |screen: &ScriptedScreen| screen.draw()[(0, 0)].bg;
    let before = ground(&screen);
    play(&mut screen, "<f9>");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..5 {
        play(&mut screen, "<down>");
        seen.insert(format!("{:?}", ground(&screen)));
    }
    assert!(seen.len() > 1, "{seen:?}");
    play(&mut screen, "<esc>");
    assert_eq!(ground(&screen), before);
    play(&mut screen, "<f9>light<enter>");
    assert_ne!(ground(&screen), before);
}

#[test]
fn the_smallest_screen_does_nothing_that_it_does_not_show() {
    for key in ('!'..='~').filter(|&key| key != '<') {
        let mut screen = open("vgg13-train-h100", (40, 10), &["scale kind=kernel x0.5"]);
        let before = text(&screen);
        play(&mut screen, &key.to_string());
        let shown = text(&screen);
        let is_told = shown.contains("no room") || ":bguUQ".contains(key);
        assert!(is_told || shown == before, "{key:?}:\n{shown}");
    }
}

#[test]
fn hints_name_the_keys_of_the_users_keymap() {
    let keymap = "[timeline]\nw = \"\"\n[everywhere]\nb = \"\"\nB = \"batch\"";
    let mut screen = open_with_keys("vgg13-train-h100", (80, 24), &[], keymap);
    assert_shows(&screen, "+ s zoom");
    assert_shows(&screen, "B batch size");
    let before = text(&screen);
    let (y, line) = before.lines().enumerate().find(|(_, line)| line.contains("B batch")).unwrap();
    let x = line.split("B batch").next().unwrap().chars().count();
    screen.click((x as u16, y as u16));
    screen.settle();
    assert_ne!(text(&screen), before, "a click runs it");
}

#[test]
fn a_search_goes_to_lanes_where_no_event_has_the_text() {
    let mut screen = open("vgg13-train-h100", (120, 40), &[]);
    play(&mut screen, "/main 42741<enter>");
    assert_shows(&screen, "1 of 1 with `main 42741`");
    play(&mut screen, "/stream 7<enter>");
    assert_shows(&screen, "1 of 1 with `stream 7`");
}

#[test]
fn the_legend_stands_beside_the_chosen_event_and_hides_families() {
    let mut screen = open("vgg13-train-h100", (120, 40), &["scale kind=kernel x0.5"]);
    play(&mut screen, "<right>");
    let shown = text(&screen);
    let (y, line) = shown.lines().enumerate().find(|(_, line)| line.contains("■ gemm")).expect("a legend");
    assert!(line.starts_with("── Conv2d"), "{line}");
    let x = line.split("■ gemm").next().unwrap().chars().count();
    screen.click((x as u16 + 1, y as u16));
    screen.settle();
    assert_shows(&screen, "□ gemm");
}

#[test]
fn a_small_screen_shows_the_first_keys_whole_and_kernels_below_edited_lanes() {
    assert_shows(&open("vgg13-train-h100", (80, 24), &[]), ": type one");
    assert_shows(&open("vgg13-train-h100", (80, 24), &["resize-batch 1024"]), "kernels ");
}
