//! Signals that end the program wait while files take their places: a job of several ranks is written whole or not at all, and nothing
//! half written stays beside it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag::{register, register_conditional_default, register_usize};
use signal_hook::low_level::emulate_default_handler;

/// What handlers set and read.
struct Signals {
    /// Whether a signal ends the program at once.
    ends_at_once: Arc<AtomicBool>,
    /// The signal that came, 0 for none.
    came: Arc<AtomicUsize>,
}

static SIGNALS: OnceLock<Signals> = OnceLock::new();

/// From now on signals wait for files that are being written. For programs without a screen, which takes signals itself.
///
/// # Errors
/// The system refuses the handlers.
pub fn let_signals_wait() -> io::Result<()> {
    let signals =
        SIGNALS.get_or_init(|| Signals { ends_at_once: Arc::new(AtomicBool::new(true)), came: Arc::default() });
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        register_usize(signal, Arc::clone(&signals.came), signal as usize)?;
        register_conditional_default(signal, Arc::clone(&signals.ends_at_once))?;
    }
    // A file beyond the size that is allowed is then an error like any other.
    register(SIGXFSZ, Arc::default())?;
    Ok(())
}

/// Holds signals back until it is dropped.
pub(super) struct Waiting(());

impl Waiting {
    pub(super) fn new() -> Self {
        if let Some(signals) = SIGNALS.get() {
            signals.ends_at_once.store(false, Ordering::SeqCst);
        }
        Self(())
    }

    /// Whether a signal that ends the program waits.
    pub(super) fn is_asked_to_end() -> bool {
        SIGNALS.get().is_some_and(|signals| signals.came.load(Ordering::SeqCst) != 0)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(signals) = SIGNALS.get() else { return };
        signals.ends_at_once.store(true, Ordering::SeqCst);
        let came = signals.came.load(Ordering::SeqCst);
        if came != 0 {
            let _ = emulate_default_handler(came as i32);
        }
    }
}
