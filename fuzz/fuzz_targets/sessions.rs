//! Saved sessions: what is read is written so that it is read again as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retime::session::SavedSession;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(session) = SavedSession::from_toml(retime_fuzz::text(bytes)) {
        assert_eq!(SavedSession::from_toml(&session.to_toml()).ok(), Some(session));
    }
});
