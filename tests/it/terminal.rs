//! The program in a pseudo-terminal: it starts, leaves, and gives the terminal back whatever happens.
#![cfg(all(feature = "tui", unix))]

use std::fmt::Write as _;
use std::sync::Arc;

use crate::support::pty::{Session, cells, size};
use crate::support::sample;

#[test]
fn it_starts_on_the_alternate_screen_and_leaves_with_status_0() {
    let mut session = Session::open();
    assert!(session.parser.lock().unwrap().screen().alternate_screen());
    session.press("Q");
    assert!(session.child.wait().unwrap().success());
    session.assert_restored();
}

#[test]
fn a_signal_to_end_gives_the_terminal_back() {
    for name in ["TERM", "INT", "HUP", "QUIT", "ALRM", "USR1", "USR2", "XCPU"] {
        let mut session = Session::open();
        session.signal(name);
        assert!(!session.child.wait().unwrap().success(), "{name}");
        session.assert_restored();
    }
}

#[test]
fn it_follows_the_size_of_the_terminal() {
    let mut session = Session::open();
    session.parser.lock().unwrap().screen_mut().set_size(cells(12), cells(30));
    session.master.resize(size(30, 12)).unwrap();
    session.wait_for("retime needs 40×10 cells");
    session.parser.lock().unwrap().screen_mut().set_size(cells(40), cells(170));
    session.master.resize(size(170, 40)).unwrap();
    session.wait_for("no edits yet");
    session.press("Q");
    assert!(session.child.wait().unwrap().success());
}

#[test]
fn a_mouse_report_of_no_cell_is_left_alone() {
    let mut session = Session::open();
    session.press("\x1b[<0;0;5M\x1b[<0;5;0M\x1b[M   ");
    session.press("Q");
    assert!(session.child.wait().unwrap().success());
    session.assert_restored();
}

#[test]
fn suspending_gives_the_terminal_back_and_continuing_takes_it_again() {
    let mut session = Session::open();
    session.press("\x1a");
    session.wait_until("the process to stop", || session.state() == 'T');
    session.assert_restored();
    session.signal("CONT");
    session.wait_until("the screen to come back", || {
        let parser = session.parser.lock().unwrap();
        parser.screen().alternate_screen() && parser.screen().contents().contains("replay")
    });
    session.press("Q");
    assert!(session.child.wait().unwrap().success());
    session.assert_restored();
}

#[test]
fn a_trace_that_cannot_be_read_ends_with_one_line_on_the_normal_screen() {
    let mut session = Session::start(env!("CARGO_BIN_EXE_retime"), &["no-such-file.json"]);
    assert!(!session.child.wait().unwrap().success());
    session.assert_restored();
    session.wait_for("no-such-file.json");
}

#[test]
fn a_panic_gives_the_terminal_back_before_it_prints() {
    let me = std::env::current_exe().unwrap();
    let arguments = ["--ignored", "--exact", "terminal::panics_on_the_screen", "--nocapture"];
    let mut session = Session::start(me.to_str().unwrap(), &arguments);
    assert!(!session.child.wait().unwrap().success());
    session.assert_restored();
    session.wait_for("this panic is wanted");
}

#[test]
#[ignore = "run by a_panic_gives_the_terminal_back_before_it_prints, in a terminal of its own"]
fn panics_on_the_screen() {
    let mut screen = retime::tui::Screen::take().unwrap();
    screen.draw(ratatui::buffer::Buffer::reset).unwrap();
    panic!("this panic is wanted");
}

#[test]
fn a_session_saves_itself_is_resumed_and_can_be_started_over() {
    let mut first = Session::open();
    first.press(":scale kind=kernel x2\r");
    first.wait_for("1 scale kind=kern");
    first.press(":gaps\r");
    first.wait_for("── gaps");
    first.leave();
    let mut second = first.again(&[]);
    second.wait_for("resumed your last session with this trace: 1 step; :fresh starts over");
    second.wait_for("── gaps");
    second.wait_for("1 scale kind=kern");
    second.leave();
    for file in std::fs::read_dir(first.state.path().join("retime")).unwrap() {
        let path = file.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        std::fs::write(&path, text.replace("view = \"gaps\"", "view = \"gapz\"")).unwrap();
    }
    let mut other = first.again(&[]);
    other.wait_for("1 step, without its view `gapz`");
    other.leave();
    let mut fresh = first.again(&["--fresh"]);
    fresh.wait_for("no edits");
    assert!(!fresh.contents().contains("scale kind=kern"));
    fresh.leave();
    let mut third = first.again(&[]);
    third.wait_for("resumed");
    third.press(":fresh\r");
    third.wait_for("started over");
    third.leave();
    let mut last = first.again(&[]);
    assert!(!last.contents().contains("resumed"), "{}", last.contents());
    last.leave();
}

/// The last of the guide's twelve jobs: the program is left and started again.
#[test]
fn yesterdays_edits_marks_and_view_are_back_and_one_key_lists_the_edits() {
    let mut yesterday = Session::open();
    yesterday.press(":scale kind=kernel x2\r");
    yesterday.wait_for("1 scale kind=kern");
    yesterday.press(":bookmark here it begins\r");
    yesterday.wait_for("◆here it begins");
    yesterday.press("2");
    yesterday.wait_for(" path ──");
    yesterday.leave();
    let mut today = yesterday.again(&[]);
    today.wait_for("1 scale kind=kern");
    today.wait_for(" path ──");
    today.press("Z");
    today.wait_for("type to find");
    today.wait_for("scale kind=kernel x2");
    today.press("\x1b");
    today.wait_until("the list to close", || !today.contents().contains("type to find"));
    today.press("1");
    today.wait_for("◆here it begins");
    today.leave();
    let mut anew = yesterday.again(&["--fresh"]);
    anew.wait_for("no edits");
    assert!(!anew.contents().contains("here it begins"));
    anew.leave();
}

#[test]
fn a_killed_program_loses_nothing_that_was_done_before() {
    let first = {
        let mut session = Session::open();
        session.press(":scale kind=kernel x2\r");
        session.wait_for("1 scale kind=kern");
        let state = session.state.path().join("retime");
        session.wait_until("the session to be written", || {
            std::fs::read_dir(&state).is_ok_and(|files| {
                files.filter_map(Result::ok).any(|f| f.path().extension().is_some_and(|ending| ending == "toml"))
            })
        });
        session.signal("KILL");
        let _ = session.child.wait();
        session
    };
    let mut second = first.again(&[]);
    second.wait_for("resumed your last session");
    second.leave();
}

#[test]
fn where_sessions_cannot_be_saved_leaving_asks() {
    let state = Arc::new(tempfile::tempdir().unwrap());
    std::fs::write(state.path().join("retime"), "in the way").unwrap();
    let mut session = Session::start_in(state, env!("CARGO_BIN_EXE_retime"), &[]);
    session.wait_for("replay");
    session.press(":scale kind=kernel x2\r");
    // The header goes on saying so after the message has made way for another.
    session.wait_for("not saved");
    session.press("Q");
    session.wait_for("1 edit is not saved");
    session.press("y");
    let _ = session.child.wait().unwrap();
    session.assert_restored();
}

#[test]
fn of_a_trace_that_is_open_twice_the_first_is_saved_and_the_second_says_that_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["one.json.gz", "two.json.gz"].map(|name| folder.path().join(name));
    for path in &paths {
        std::fs::copy(sample("mlp-b256-fp32-cpu.kineto.json.gz"), path).unwrap();
    }
    let [one, two] = paths.each_ref().map(|path| path.to_str().unwrap());
    let state = Arc::new(tempfile::tempdir().unwrap());
    let mut both = Session::start_in(Arc::clone(&state), env!("CARGO_BIN_EXE_retime"), &[one, two]);
    both.wait_for("type to find");
    both.press("\x1b");
    both.press(":trace 1\r");
    both.press(":scale kind=host x2\r");
    both.wait_for("1 scale kind=host x2");
    assert!(!both.contents().contains("not saved"), "{}", both.contents());
    both.press(":trace 2\r");
    both.wait_for("not saved");
    both.press(":scale kind=host x3\r");
    both.wait_for("1 scale kind=host x3");
    both.press("Q");
    both.wait_for("1 edit is not saved");
    both.press("y");
    let _ = both.child.wait().unwrap();
    let mut alone = Session::start_in(state, env!("CARGO_BIN_EXE_retime"), &[one]);
    alone.wait_for("1 scale kind=host x2");
    alone.leave();
}

/// A trace that takes seconds to read.
fn long_trace(folder: &std::path::Path) -> String {
    const EVENTS: u32 = 600_000;
    let mut text = String::from(r#"{"schemaVersion":1,"traceEvents":["#);
    for at in 0..EVENTS {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(
            text,
            r#"{comma}{{"ph":"X","cat":"cpu_op","name":"aten::linear","pid":1,"tid":2,"ts":{},"dur":5}}"#,
            at * 10
        );
    }
    text.push_str("]}");
    let path = folder.join("long.json");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn esc_stops_loading() {
    let folder = tempfile::tempdir().unwrap();
    let long = long_trace(folder.path());
    // A trace that was read would stay on the screen.
    let mut alone = Session::start(env!("CARGO_BIN_EXE_retime"), &[&long]);
    alone.wait_for("long.json");
    alone.press("\x1b");
    assert!(alone.child.wait().unwrap().success());
    alone.assert_restored();

    let mut beside = Session::open();
    beside.press(&format!(":compare {long}\r"));
    beside.wait_for("long.json");
    beside.press("\x1b");
    beside.wait_for("── compare");
    beside.wait_for("loading was stopped");
    beside.leave();
}

#[test]
fn opening_what_is_not_there_while_a_trace_is_loaded_does_not_end_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = Session::start(env!("CARGO_BIN_EXE_retime"), &[&long_trace(folder.path())]);
    session.wait_for("long.json");
    session.press(":open nowhere.json\r");
    session.wait_for("a trace is being loaded");
    assert!(session.child.try_wait().unwrap().is_none());
    session.signal("TERM");
    session.assert_restored();
}

#[test]
fn scenarios_come_back_by_their_names() {
    let mut first = Session::open();
    first.press(":scale kind=kernel x2\r");
    first.wait_for("1 scale kind=kern");
    first.press(":scenario new double\r");
    first.wait_for("`double` now");
    first.press(":scenario blank plain\r");
    first.wait_for("no steps yet");
    first.leave();
    let mut second = first.again(&[]);
    second.wait_for("2 scenarios");
    second.wait_for("scenario plain");
    second.press(":scenario double\r");
    second.wait_for("1 scale kind=kern");
    second.leave();
}

#[test]
fn a_closed_terminal_ends_the_program() {
    let (mut child, _state) = Session::open().hang_up();
    let began = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "it goes on without a terminal");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn keys_that_come_faster_than_they_are_taken_all_arrive() {
    // More than a terminal holds, and not a multiple of what is read at a time.
    const KEYS: usize = 65_000;
    let mut session = Session::open();
    let keys = "j".repeat(KEYS);
    session.press(&keys);
    session.press(":gaps\r");
    session.wait_for("── gaps");
    session.leave();
}

#[test]
fn a_signal_to_end_overtakes_keys() {
    let mut session = Session::open();
    session.press(":board\r");
    session.wait_for("── board");
    let mut writer = std::mem::replace(&mut session.writer, Box::new(std::io::sink()));
    // Goes on until the test ends: a terminal without a program keeps whoever types.
    std::thread::spawn(move || while std::io::Write::write_all(&mut writer, &[b'1'; 512]).is_ok() {});
    std::thread::sleep(std::time::Duration::from_secs(1));
    session.signal("TERM");
    let began = std::time::Instant::now();
    assert!(!session.child.wait().unwrap().success());
    session.assert_restored();
    // Well before a screen that does not leave is left as it is.
    assert!(began.elapsed() < std::time::Duration::from_secs(3), "{:?}", began.elapsed());
}

/// Waits for the end of a program that is no child.
#[cfg(target_os = "linux")]
fn wait_for_end(pid: &str) {
    let began = std::time::Instant::now();
    while std::path::Path::new("/proc").join(pid).exists() {
        assert!(began.elapsed() < crate::support::pty::PATIENCE, "it goes on without a terminal");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_terminal_ends_a_program_that_is_not_told_by_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    // In a session of its own, which has no terminal that could hang up.
    let program = format!("echo $$ >{}; exec {}", pid.display(), env!("CARGO_BIN_EXE_retime"));
    let session = Session::start("setsid", &["--wait", "sh", "-c", &program]);
    session.wait_for("replay");
    let pid = std::fs::read_to_string(pid).unwrap();
    let _ = session.hang_up();
    wait_for_end(pid.trim());
}

#[test]
fn a_terminal_that_reads_no_more_does_not_keep_the_program() {
    let mut session = Session::open();
    let screen = Arc::clone(&session.parser);
    let stuck = screen.lock().unwrap();
    for _ in 0..100 {
        session.press("?");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    session.signal("TERM");
    assert!(!session.child.wait().unwrap().success());
    drop(stuck);
}
