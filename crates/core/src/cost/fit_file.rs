//! Fits as files: parameters in one, trees in another.

use serde::{Deserialize, Serialize};

use rayon::prelude::*;

use crate::device::CatalogError;

use super::anchor::Anchored;
use super::fits::{Fit, Fits, SharedParameters, check_length};
use super::forest::Forest;

/// The built-in fits: parameters in one file, trees in another, in the order of the first.
const BUILTIN: (&str, &[u8]) = (include_str!("catalog/fits.json"), include_bytes!("catalog/forests.bin"));

#[derive(Serialize, Deserialize)]
struct FitFile {
    unseen: Vec<SharedParameters>,
    #[serde(default)]
    anchored: Vec<Anchored>,
    fits: Vec<StoredFit>,
}

#[derive(Serialize, Deserialize)]
struct StoredFit {
    #[serde(flatten)]
    fit: Fit,
    /// Length of its trees in bytes.
    forest_bytes: usize,
}

impl Fits {
    /// The fits that come with the program.
    ///
    /// # Errors
    /// The built-in files are damaged.
    pub fn builtin() -> Result<Self, CatalogError> {
        Self::decode(BUILTIN.0, BUILTIN.1).map_err(|message| CatalogError::Syntax {
            file: "fits.json".to_owned(),
            line: 1,
            message,
        })
    }

    /// The fits of a parameter file and its trees.
    ///
    /// # Errors
    /// A damaged file, in words.
    pub fn decode(text: &str, mut forests: &[u8]) -> Result<Self, String> {
        let file: FitFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut fits = Self::default();
        let mut stored = Vec::with_capacity(file.fits.len());
        for fit in file.fits {
            let (own, rest) = forests.split_at_checked(fit.forest_bytes).ok_or("trees are cut short")?;
            stored.push((fit.fit, own));
            forests = rest;
        }
        let with_trees = |(mut fit, own): (Fit, &[u8])| {
            fit.forest = Forest::decode(own).map_err(|error| error.to_string())?;
            Ok(fit)
        };
        let stored: Result<Vec<Fit>, String> = stored.into_par_iter().map(with_trees).collect();
        stored?.into_iter().try_for_each(|fit| fits.add(fit))?;
        for unseen in file.unseen {
            check_length(unseen.domain, &unseen.parameters)?;
            fits.unseen.insert(unseen.domain, unseen);
        }
        for anchored in file.anchored {
            fits.set_anchored(anchored);
        }
        Ok(fits)
    }

    /// The parameter file and the trees of these fits.
    pub fn encode(&self) -> (String, Vec<u8>) {
        let mut forests = Vec::new();
        let stored = self.measured.iter().map(|fit| {
            let bytes = fit.forest.encode();
            forests.extend_from_slice(&bytes);
            StoredFit { fit: Fit::clone(fit), forest_bytes: bytes.len() }
        });
        let file = FitFile {
            fits: stored.collect(),
            unseen: self.unseen.values().cloned().collect(),
            anchored: self.anchored.values().cloned().collect(),
        };
        (serde_json::to_string_pretty(&file).unwrap_or_default(), forests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_fits_come_back_unchanged() {
        let builtin = Fits::builtin().unwrap();
        let (text, forests) = builtin.encode();
        let again = Fits::decode(&text, &forests).unwrap();
        assert!(builtin.iter().eq(again.iter()));
    }

    #[test]
    fn damaged_fits_are_refused() {
        assert!(Fits::decode("{", &[]).is_err());
        let unseen = r#"{"unseen":[{"domain":"linear","parameters":[1],"error":1,"devices":1}],"fits":[]}"#;
        assert!(Fits::decode(unseen, &[]).unwrap_err().contains("17 are expected"));
    }
}
