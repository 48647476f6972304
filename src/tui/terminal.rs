//! The terminal: taken over, and given back on every way out — return, error, panic, signal, suspension.

use std::io::{self, BufWriter, Stdout, Write, stdout};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    SetTitle, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect, Size};
use ratatui::{Terminal, TerminalOptions, Viewport};

/// Whether the terminal is taken over at the moment.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A terminal in raw mode on its alternate screen; dropping it gives the terminal back.
pub struct Screen {
    terminal: Terminal<Backend>,
    mouse: bool,
}

impl Screen {
    /// Takes the terminal over. From now on a panic gives it back before it prints.
    ///
    /// # Errors
    /// Standard output is no terminal, or the system refuses.
    pub fn take() -> io::Result<Self> {
        hook_panics();
        let mut screen = Self { terminal: blank()?, mouse: true };
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&mut self) -> io::Result<()> {
        TAKEN.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste, cursor::Hide, SetTitle("retime"))?;
        self.set_mouse(self.mouse)?;
        self.clear()
    }

    /// Captures the mouse, or leaves it to the terminal.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn set_mouse(&mut self, is_captured: bool) -> io::Result<()> {
        self.mouse = is_captured;
        if is_captured { execute!(stdout(), EnableMouseCapture) } else { execute!(stdout(), DisableMouseCapture) }
    }

    /// Its size.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn size(&self) -> io::Result<Size> {
        size()
    }

    /// Draws a frame; the terminal shows it at once.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, render: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| render(frame.buffer_mut()))?;
        queue!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        Write::flush(self.terminal.backend_mut())
    }

    /// Forgets what is on the screen, so that the next frame draws all of it in the terminal's present size.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn clear(&mut self) -> io::Result<()> {
        execute!(stdout(), Clear(ClearType::All))?;
        self.terminal = blank()?;
        Ok(())
    }

    /// Puts `text` on the clipboard of the terminal (OSC 52).
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        let mut out = stdout();
        write!(out, "\x1b]52;c;{encoded}\x07")?;
        out.flush()
    }

    /// Gives the terminal back, stops this process until it is continued, and takes the terminal over again.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
        self.enter()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

type Backend = CrosstermBackend<Output>;

/// The terminal while it is taken. What comes later goes nowhere: [`Terminal`] shows the cursor when it is dropped, and
/// complains, which panics where standard error is the terminal that is gone.
struct Output(BufWriter<Stdout>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if TAKEN.load(Ordering::SeqCst) { self.0.write(bytes) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if TAKEN.load(Ordering::SeqCst) { self.0.flush() } else { Ok(()) }
    }
}

/// A terminal of the present size with nothing drawn yet.
///
/// Of a fixed size, because one that follows the terminal asks it for the cursor's place, and the answer would have to
/// pass the thread that reads keys.
fn blank() -> io::Result<Terminal<Backend>> {
    let backend = CrosstermBackend::new(Output(BufWriter::with_capacity(1 << 16, stdout())));
    let viewport = Viewport::Fixed(Rect::from((Position::ORIGIN, size()?)));
    Terminal::with_options(backend, TerminalOptions { viewport })
}

fn size() -> io::Result<Size> {
    let (width, height) = crossterm::terminal::size()?;
    Ok(Size { width, height })
}

/// Gives the terminal back if it is taken. Errors are of no use here: the terminal may be gone.
pub fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(
            stdout(),
            EndSynchronizedUpdate,
            DisableMouseCapture,
            DisableBracketedPaste,
            LeaveAlternateScreen,
            cursor::Show
        );
        let _ = disable_raw_mode();
    }
}

/// A panic on any thread gives the terminal back, prints, and ends the program.
fn hook_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let was_taken = TAKEN.load(Ordering::SeqCst);
            give_back();
            before(info);
            if was_taken && std::thread::current().name() != Some("main") {
                std::process::exit(101);
            }
        }));
    });
}
