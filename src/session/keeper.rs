//! Writes sessions on a thread of its own, the latest of each trace, so that nobody waits for a disk.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use super::{SavedSession, Sessions};

enum Order {
    /// A trace was opened.
    Begin(String),
    /// A session is to be written.
    Write(SavedSession),
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
    /// Starts the thread. `report` is told on it, once, why sessions cannot be written; that another program has the
    /// trace open it says when the trace is opened.
    pub fn start(sessions: Sessions, report: impl Fn(String) + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel::<Order>();
        let thread = thread::spawn(move || {
            let mut complaint: Option<String> = None;
            while let Ok(first) = receiver.recv() {
                let mut latest = BTreeMap::new();
                for order in std::iter::once(first).chain(receiver.try_iter()) {
                    match order {
                        Order::Begin(trace) => _ = latest.entry(trace).or_insert(None),
                        Order::Write(session) => _ = latest.insert(session.trace.clone(), Some(session)),
                    }
                }
                for (trace, session) in latest {
                    let done = match session {
                        Some(session) => sessions.write(&session),
                        None => sessions.claim(&trace),
                    };
                    let failed = done.err().map(|error| error.to_string());
                    if let (Some(reason), None) = (&failed, &complaint) {
                        report(reason.clone());
                    }
                    complaint = failed;
                }
            }
            sessions.release();
            complaint
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
            let _ = self.sender.send(Order::Write(session.clone()));
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
        let mut keeper = Keeper::start(sessions.clone(), |reason| panic!("{reason}"));
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
}
