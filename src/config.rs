//! The user's own files: `$XDG_CONFIG_HOME/retime/` with `keymap.toml`, `prices.toml`, `themes/*.toml` and `devices/*.toml`.
//!
//! Reads texts; what they mean is for those who use them. A folder that does not exist is no error.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use thiserror::Error;

use retime_core::engine::{EngineError, read_text};

/// A file of the user's that cannot be read.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct ConfigError(EngineError);

/// The texts of the user's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `keymap.toml`; empty when there is none.
    pub keymap: String,
    /// `prices.toml`; empty when there is none.
    pub prices: String,
    /// Themes: name without ending, and text.
    pub themes: Vec<(String, String)>,
    /// Device files: path and text.
    pub devices: Vec<(String, String)>,
    /// What could not be read, a line each.
    pub unreadable: Vec<String>,
}

impl Config {
    /// Reads the user's folder.
    ///
    /// # Errors
    /// The keymap or the prices are there and cannot be read.
    pub fn read() -> Result<Self, ConfigError> {
        etcetera::choose_base_strategy()
            .map_or_else(|_| Ok(Self::default()), |places| Self::read_from(&places.config_dir().join("retime")))
    }

    /// Reads `folder`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_from(folder: &Path) -> Result<Self, ConfigError> {
        let named = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut unreadable = Vec::new();
        Ok(Self {
            keymap: text(&folder.join("keymap.toml"))?.unwrap_or_default(),
            prices: text(&folder.join("prices.toml"))?.unwrap_or_default(),
            themes: texts(&folder.join("themes"), named, &mut unreadable),
            devices: texts(&folder.join("devices"), |path| path.display().to_string(), &mut unreadable),
            unreadable,
        })
    }
}

/// The text of a file; `None` when it does not exist.
fn text(path: &Path) -> Result<Option<String>, ConfigError> {
    if fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(None);
    }
    // A pipe or a device may give nothing, or no end.
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        let reason = "this is no file".to_owned();
        return Err(ConfigError(EngineError::Read { path: path.display().to_string(), reason }));
    }
    read_text(path).map(Some).map_err(ConfigError)
}

/// The TOML files of a folder in order of name; what cannot be read goes into `unreadable`.
fn texts(folder: &Path, name: impl Fn(&Path) -> String, unreadable: &mut Vec<String>) -> Vec<(String, String)> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            unreadable.push(format!("{}: {error}", folder.display()));
            return Vec::new();
        }
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    paths.sort();
    let mut found = Vec::new();
    for path in &paths {
        match text(path) {
            Ok(text) => found.push((name(path), text.unwrap_or_default())),
            Err(error) => unreadable.push(error.to_string()),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_pipe_among_the_files_is_left_out_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let devices = folder.path().join("devices");
        fs::create_dir(&devices).unwrap();
        fs::write(devices.join("b.toml"), "b").unwrap();
        assert!(std::process::Command::new("mkfifo").arg(devices.join("a.toml")).status().unwrap().success());
        let (path, (sender, read)) = (folder.path().to_owned(), std::sync::mpsc::channel());
        std::thread::spawn(move || sender.send(Config::read_from(&path).unwrap()));
        let config = read.recv_timeout(std::time::Duration::from_secs(20)).expect("it waits for somebody to write");
        assert_eq!((config.devices.len(), config.unreadable.len()), (1, 1));
        assert!(
            config.unreadable[0].contains("a.toml") && config.unreadable[0].contains("no file"),
            "{:?}",
            config.unreadable
        );
    }

    #[test]
    fn an_absent_folder_is_empty_and_files_are_read_in_order() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Config::read_from(&folder.path().join("absent")).unwrap(), Config::default());
        fs::create_dir(folder.path().join("themes")).unwrap();
        for name in ["b.toml", "a.toml", "c.txt"] {
            fs::write(folder.path().join("themes").join(name), name).unwrap();
        }
        let config = Config::read_from(folder.path()).unwrap();
        fs::write(folder.path().join("devices"), "no folder").unwrap();
        fs::write(folder.path().join("themes/d.toml"), [0xff]).unwrap();
        let damaged = Config::read_from(folder.path()).unwrap();
        assert_eq!((damaged.themes, damaged.unreadable.len()), (config.themes.clone(), 2), "what can be read stays");
        assert_eq!(config.themes.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }
}
