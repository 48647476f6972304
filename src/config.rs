//! The user's own files: `$XDG_CONFIG_HOME/retime/` with `keymap.toml`, `themes/*.toml` and `devices/*.toml`.
//!
//! Reads texts; what they mean is for those who use them. A folder that does not exist is no error.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use thiserror::Error;

/// A file of the user's that cannot be read.
#[derive(Debug, Error)]
#[error("{path}: {reason}")]
pub struct ConfigError {
    path: String,
    reason: String,
}

/// The texts of the user's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `keymap.toml`; empty when there is none.
    pub keymap: String,
    /// Themes: name without ending, and text.
    pub themes: Vec<(String, String)>,
    /// Device files: path and text.
    pub devices: Vec<(String, String)>,
}

impl Config {
    /// Reads the user's folder.
    ///
    /// # Errors
    /// A file is there and cannot be read.
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
        Ok(Self {
            keymap: text(&folder.join("keymap.toml"))?.unwrap_or_default(),
            themes: texts(&folder.join("themes"), named)?,
            devices: texts(&folder.join("devices"), |path| path.display().to_string())?,
        })
    }
}

/// The text of a file; `None` when it does not exist.
fn text(path: &Path) -> Result<Option<String>, ConfigError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConfigError { path: path.display().to_string(), reason: error.to_string() }),
    }
}

/// The TOML files of a folder in order of name.
fn texts(folder: &Path, name: impl Fn(&Path) -> String) -> Result<Vec<(String, String)>, ConfigError> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    paths.sort();
    let read = |path: &PathBuf| Ok((name(path), text(path)?.unwrap_or_default()));
    paths.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_folder_is_empty_and_files_are_read_in_order() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Config::read_from(&folder.path().join("absent")).unwrap(), Config::default());
        fs::create_dir(folder.path().join("themes")).unwrap();
        for name in ["b.toml", "a.toml", "c.txt"] {
            fs::write(folder.path().join("themes").join(name), name).unwrap();
        }
        let config = Config::read_from(folder.path()).unwrap();
        assert_eq!(config.themes.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }
}
