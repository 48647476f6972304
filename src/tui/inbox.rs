//! What the screen is told: replies, and what the user and the system do. To be told to stop overtakes the rest, and keys
//! that nobody has taken yet hold the terminal back.

use std::io::{self, IsTerminal, stdout};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crossterm::event::Event as Input;
use ratatui::layout::Size;
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGXCPU};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::terminal;
use super::update::Event;

/// Keys and the like that wait at most; more stay with the terminal.
const MOST_WAITING: usize = 256;

/// How long the screen may take to leave after a signal: it may be writing to a terminal that reads no more.
const GRACE: Duration = Duration::from_secs(5);

/// Between two looks whether the terminal is still there, while no key comes.
const WATCH: Duration = Duration::from_secs(5);

/// Events in the order in which they came, but for the signal that ends the program.
#[derive(Debug)]
pub struct Inbox {
    events: Receiver<Event>,
    /// A place for each input that waits.
    taken: (SyncSender<()>, Receiver<()>),
    stopped_by: Arc<OnceLock<i32>>,
}

impl Inbox {
    /// One that the returned sender fills, and signals from now on.
    ///
    /// # Errors
    /// The system refuses.
    pub fn open() -> io::Result<(Sender<Event>, Self)> {
        let (sender, events) = mpsc::channel();
        let stopped_by = Arc::default();
        watch_signals(sender.clone(), Arc::clone(&stopped_by))?;
        Ok((sender, Self { events, taken: mpsc::sync_channel(MOST_WAITING), stopped_by }))
    }

    /// Has keys, mouse, pastes and sizes come as well.
    pub fn read_input(&self, sender: Sender<Event>) {
        let places = self.taken.0.clone();
        thread::spawn(move || {
            loop {
                let Some(event) = read().unwrap_or(Some(Event::Stop(None))) else { continue };
                let is_last = matches!(event, Event::Stop(_));
                let has_place = !is_input(&event) || places.send(()).is_ok();
                if !has_place || sender.send(event).is_err() || is_last {
                    return;
                }
            }
        });
    }

    /// The next event; waits for one, if `patience` is given no longer than that.
    ///
    /// # Errors
    /// None came in time, or none can come any more.
    pub fn next(&self, patience: Option<Duration>) -> Result<Event, RecvTimeoutError> {
        self.overtaking(|events| match patience {
            Some(patience) => events.recv_timeout(patience),
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
        })
    }

    /// An event that waits.
    pub fn waiting(&self) -> Option<Event> {
        self.overtaking(|events| events.try_recv().map_err(|_| RecvTimeoutError::Timeout)).ok()
    }

    fn overtaking(
        &self,
        next: impl FnOnce(&Receiver<Event>) -> Result<Event, RecvTimeoutError>,
    ) -> Result<Event, RecvTimeoutError> {
        let stop = || self.stopped_by.get().map(|&signal| Event::Stop(Some(signal)));
        if let Some(stop) = stop() {
            return Ok(stop);
        }
        let event = next(&self.events)?;
        if is_input(&event) {
            let _ = self.taken.1.try_recv();
        }
        Ok(event)
    }
}

/// Whether an event is the user's doing, of which there may be any number.
fn is_input(event: &Event) -> bool {
    matches!(event, Event::Key(_) | Event::Mouse(_) | Event::Paste(_) | Event::Resize(_))
}

/// What the user did, if anything; an error once there is no terminal any more, which only the
/// program that a terminal belongs to is told by a signal.
fn read() -> io::Result<Option<Event>> {
    if crossterm::event::poll(WATCH)? {
        return Ok(event_of(crossterm::event::read()?));
    }
    if stdout().is_terminal() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn event_of(input: Input) -> Option<Event> {
    Some(match input {
        Input::Key(key) => Event::Key(key),
        // Counted from 1 and reported as 0: nowhere.
        Input::Mouse(mouse) if mouse.column == u16::MAX || mouse.row == u16::MAX => return None,
        Input::Mouse(mouse) => Event::Mouse(mouse),
        Input::Paste(text) => Event::Paste(text),
        Input::Resize(width, height) => Event::Resize(Size { width, height }),
        Input::FocusGained | Input::FocusLost => return None,
    })
}

/// Signals that end or suspend the program become events. A screen that does not leave is left as it is.
fn watch_signals(sender: Sender<Event>, stopped_by: Arc<OnceLock<i32>>) -> io::Result<()> {
    const ENDING: [i32; 8] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU];
    let mut signals = Signals::new(ENDING.into_iter().chain([SIGTSTP]))?;
    thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGTSTP {
                let _ = sender.send(Event::Suspend);
                continue;
            }
            let signal = *stopped_by.get_or_init(|| signal);
            let _ = sender.send(Event::Stop(Some(signal)));
            thread::spawn(move || {
                thread::sleep(GRACE);
                // A terminal that reads no more keeps whoever writes to it.
                let given_back = thread::spawn(terminal::give_back);
                thread::sleep(GRACE / 20);
                drop(given_back);
                emulate_default_handler(signal)
            });
        }
    });
    Ok(())
}
