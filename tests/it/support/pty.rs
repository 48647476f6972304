//! The program in a pseudo-terminal, as tests press its keys and look at its screen.

use std::io::{Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

pub const PATIENCE: Duration = Duration::from_secs(30);

/// The program in a terminal.
pub struct Session {
    pub child: Box<dyn Child + Send + Sync>,
    pub master: Box<dyn MasterPty + Send>,
    pub writer: Box<dyn Write + Send>,
    pub parser: Arc<Mutex<vt100::Parser>>,
    /// Whether nobody reads the screen any more.
    is_closed: Arc<AtomicBool>,
    /// Where sessions save themselves.
    pub state: Arc<tempfile::TempDir>,
}

pub fn cells(count: u16) -> std::num::NonZero<u16> {
    std::num::NonZero::new(count).unwrap()
}

pub fn size(cols: u16, rows: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

impl Session {
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        Self::start_in(Arc::new(tempfile::tempdir().unwrap()), program, arguments)
    }

    pub fn start_in(state: Arc<tempfile::TempDir>, program: &str, arguments: &[&str]) -> Self {
        let pty = native_pty_system().openpty(size(100, 30)).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        command.env("RUST_BACKTRACE", "0");
        command.env("XDG_STATE_HOME", state.path());
        command.env_remove("LC_ALL");
        command.env_remove("NO_COLOR");
        let child = pty.slave.spawn_command(command).unwrap();
        drop(pty.slave);
        let parser = Arc::new(Mutex::new(vt100::Parser::new(cells(30), cells(100), 0)));
        let (mut reader, theirs) = (pty.master.try_clone_reader().unwrap(), Arc::clone(&parser));
        let is_closed = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_closed);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                theirs.lock().unwrap().process(&bytes[..count]);
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let writer = pty.master.take_writer().unwrap();
        Self { child, master: pty.master, writer, parser, is_closed, state }
    }

    /// The program with its bundled sample, once that is on the screen.
    pub fn open() -> Self {
        let session = Self::start(env!("CARGO_BIN_EXE_retime"), &[]);
        session.wait_for("replay");
        session
    }

    /// The program once more, with the sessions saved so far.
    pub fn again(&self, arguments: &[&str]) -> Self {
        let session = Self::start_in(Arc::clone(&self.state), env!("CARGO_BIN_EXE_retime"), arguments);
        session.wait_for("replay");
        session
    }

    pub fn leave(&mut self) {
        self.press("Q");
        assert!(self.child.wait().unwrap().success());
    }

    /// Closes the terminal: the program is left without one.
    pub fn hang_up(self) -> (Box<dyn Child + Send + Sync>, Arc<tempfile::TempDir>) {
        self.is_closed.store(true, Ordering::Relaxed);
        // The reader holds the terminal, too, until it has read once more: another size is drawn anew.
        self.master.resize(size(90, 28)).unwrap();
        (self.child, self.state)
    }

    pub fn contents(&self) -> String {
        self.parser.lock().unwrap().screen().contents()
    }

    pub fn wait_for(&self, wanted: &str) {
        self.wait_until(wanted, || self.contents().contains(wanted));
    }

    pub fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}; on the screen:\n{}", self.contents());
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn press(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.process_id().unwrap().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// The state letter of the process: `T` when it is stopped.
    pub fn state(&self) -> char {
        let pid = self.child.process_id().unwrap().to_string();
        let state = Command::new("ps").args(["-o", "state=", "-p", &pid]).output().unwrap();
        String::from_utf8_lossy(&state.stdout).trim().chars().next().unwrap_or('?')
    }

    /// Memory that the process holds beside the program itself, in bytes; 0 once it has ended.
    #[cfg(target_os = "linux")]
    pub fn held(&self) -> u64 {
        let facts = std::fs::read_to_string(format!("/proc/{}/statm", self.child.process_id().unwrap()));
        let facts = facts.unwrap_or_default();
        let pages: Vec<u64> = facts.split(' ').filter_map(|pages| pages.trim().parse().ok()).collect();
        pages.get(1).zip(pages.get(2)).map_or(0, |(resident, of_files)| resident.saturating_sub(*of_files) * 4096)
    }

    pub fn assert_restored(&self) {
        self.wait_until("the terminal to be given back", || {
            let parser = self.parser.lock().unwrap();
            let screen = parser.screen();
            !screen.alternate_screen()
                && !screen.hide_cursor()
                && !screen.bracketed_paste()
                && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
        });
    }
}
