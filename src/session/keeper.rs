//! Writes sessions on a thread of its own, the latest of each trace, so that nobody waits for a disk.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{SavedSession, Sessions};

#[derive(PartialEq)]
enum Order {
    /// A trace was opened.
    Begin(String),
    /// A session is to be written.
    Write(Box<SavedSession>),
}

/// What could not be written is tried again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// What is to be written.
#[derive(Default)]
struct Waiting {
    /// The latest session of each trace; none where it is only taken for this process.
    orders: BTreeMap<String, Option<SavedSession>>,
    /// Why the last that was tried could not be.
    complaint: Option<String>,
}

impl Waiting {
    fn take(&mut self, order: Order) {
        match order {
            Order::Begin(trace) => _ = self.orders.entry(trace).or_insert(None),
            Order::Write(session) => _ = self.orders.insert(session.trace.clone(), Some(*session)),
        }
    }

    /// Writes what waits; what cannot be waits on.
    fn write(&mut self, sessions: &Sessions, report: &impl Fn(Result<(), String>)) {
        let mut failed = None;
        self.orders.retain(|trace, session| {
            let done = session.as_ref().map_or_else(|| sessions.claim(trace), |session| sessions.write(session));
            let error = done.err().map(|error| error.to_string());
            let is_failed = error.is_some();
            failed = error.or(failed.take());
            is_failed
        });
        match (&self.complaint, &failed) {
            (None, Some(reason)) => report(Err(reason.clone())),
            (Some(_), None) => report(Ok(())),
            _ => {}
        }
        self.complaint = failed;
    }
}

/// Keeps the sessions of the opened traces on disk.
#[derive(Debug)]
pub struct Keeper {
    /// What is on disk, or on its way there, by trace.
    known: BTreeMap<String, SavedSession>,
    sender: Sender<Order>,
    thread: JoinHandle<Option<String>>,
}

impl Keeper {
    /// Starts the thread. `report` is told on it when sessions cannot be written, and why, and when all are again; that another
    /// program has the trace open it says when the trace is opened.
    pub fn start(sessions: Sessions, report: impl Fn(Result<(), String>) + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel::<Order>();
        let thread = thread::spawn(move || {
            let mut waiting = Waiting::default();
            loop {
                let next = if waiting.orders.is_empty() {
                    receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
                } else {
                    receiver.recv_timeout(AGAIN)
                };
                let is_last = next == Err(RecvTimeoutError::Disconnected);
                next.into_iter().chain(receiver.try_iter()).for_each(|order| waiting.take(order));
                waiting.write(&sessions, &report);
                if is_last {
                    sessions.release();
                    return waiting.complaint;
                }
            }
        });
        Self { known: BTreeMap::new(), sender, thread }
    }

    /// The session of a trace as it was kept last.
    pub fn known(&self, trace: &str) -> Option<&SavedSession> {
        self.known.get(trace)
    }

    /// Takes note of how a trace was opened, which needs no writing.
    pub fn begin(&mut self, session: SavedSession) {
        let _ = self.sender.send(Order::Begin(session.trace.clone()));
        self.known.insert(session.trace.clone(), session);
    }

    /// Writes a session if it differs from the last one of its trace.
    pub fn keep(&mut self, session: SavedSession) {
        if self.known.get(&session.trace) != Some(&session) {
            let _ = self.sender.send(Order::Write(Box::new(session.clone())));
            self.known.insert(session.trace.clone(), session);
        }
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// Why the last session could not be.
    pub fn finish(self) -> Result<(), String> {
        drop(self.sender);
        self.thread.join().unwrap_or_default().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retime_core::scenario::Scenario;
    use std::sync::{Arc, Mutex};

    fn session(line: &str) -> SavedSession {
        let scenario = Scenario::parse([line]).unwrap();
        SavedSession { trace: "aa".to_owned(), scenario, ..SavedSession::default() }
    }

    #[test]
    fn the_latest_session_is_on_disk_when_it_has_finished() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = Sessions::at(folder.path());
        let mut keeper = Keeper::start(sessions.clone(), |told| panic!("{told:?}"));
        keeper.begin(session("resize-batch 1"));
        keeper.keep(session("resize-batch 1"));
        assert!(sessions.read("aa").unwrap().is_none(), "as it was opened");
        for batch in 2..50 {
            keeper.keep(session(&format!("resize-batch {batch}")));
        }
        keeper.finish().unwrap();
        assert_eq!(sessions.read("aa").unwrap(), Some(session("resize-batch 49")));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_complained_about() {
        let folder = tempfile::tempdir().unwrap();
        let blocked = folder.path().join("file");
        std::fs::write(&blocked, "").unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let said = Arc::clone(&heard);
        let mut keeper = Keeper::start(Sessions::at(&blocked), move |reason| said.lock().unwrap().push(reason));
        keeper.keep(session("resize-batch 1"));
        assert!(keeper.finish().unwrap_err().contains("file"));
        assert_eq!(heard.lock().unwrap().len(), 1);
    }

    #[test]
    fn what_could_not_be_written_is_written_once_it_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("state");
        std::fs::write(&place, "").unwrap();
        let (heard, told) = mpsc::channel();
        let sessions = Sessions::at(&place);
        let mut keeper = Keeper::start(sessions.clone(), move |result| heard.send(result).unwrap());
        keeper.keep(session("resize-batch 1"));
        assert!(told.recv().unwrap().is_err());
        std::fs::remove_file(&place).unwrap();
        assert_eq!(told.recv(), Ok(Ok(())), "while nothing else is asked for");
        keeper.finish().unwrap();
        assert_eq!(sessions.read("aa").unwrap(), Some(session("resize-batch 1")));
    }
}
