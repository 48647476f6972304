//! All known devices: the built-in ones and the user's, found by name or by what a driver calls them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{CatalogError, UnknownDevice};
use super::file::{self, Placed};
use super::link::CollectiveCurve;
use super::names::{comparable, nearest};
use super::profile::{DeviceKind, DeviceProfile};
use super::resolve;
use crate::units::Bytes;

/// How far the memory that drivers report is from what is sold: they keep some for themselves.
const REPORTED: f64 = 0.08;

/// The device files that are part of the program.
const BUILTIN: [(&str, &str); 6] = [
    ("nvidia-maxwell-pascal.toml", include_str!("catalog/nvidia-maxwell-pascal.toml")),
    ("nvidia-volta-turing.toml", include_str!("catalog/nvidia-volta-turing.toml")),
    ("nvidia-ampere-ada.toml", include_str!("catalog/nvidia-ampere-ada.toml")),
    ("nvidia-hopper-blackwell.toml", include_str!("catalog/nvidia-hopper-blackwell.toml")),
    ("amd.toml", include_str!("catalog/amd.toml")),
    ("hosts.toml", include_str!("catalog/hosts.toml")),
];

/// Device profiles by id.
#[derive(Clone, Debug)]
pub struct Catalog {
    devices: BTreeMap<String, Arc<DeviceProfile>>,
    /// Every id and alias in comparable form → id.
    names: BTreeMap<String, String>,
    /// Collectives measured on devices, by id.
    curves: BTreeMap<String, Vec<CollectiveCurve>>,
}

impl Catalog {
    /// The devices that come with the program.
    pub fn builtin() -> Result<Self, CatalogError> {
        Self::with_files(&[])
    }

    /// The built-in devices and those of `files`, each a name (for messages) and its contents.
    /// A device of a later file replaces one of the same id, also for those that inherit from it; where it inherits from its
    /// own id, the earlier one is meant.
    ///
    /// # Errors
    /// The first device file that cannot be used, with the line and the key.
    pub fn with_files(files: &[(String, String)]) -> Result<Self, CatalogError> {
        let user = files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let mut entries = BTreeMap::new();
        for (order, (name, text)) in BUILTIN.into_iter().chain(user).enumerate() {
            for (id, placed) in file::parse(name, text)? {
                let placed = Placed { order, ..placed };
                let placed = match entries.remove(&id) {
                    Some(earlier) => placed.on(&id, earlier),
                    None => placed,
                };
                entries.insert(id, placed);
            }
        }
        Self::resolve(&entries)
    }

    /// The devices that two of `files` define, of which the later one holds, and other names in `files` that stand for another device
    /// already, a line each. A device that inherits from its own id adds to the earlier one.
    pub fn replaced(files: &[(String, String)]) -> Vec<String> {
        let mut known: BTreeMap<String, Placed> = BTreeMap::new();
        let mut replaced = Vec::new();
        for (id, placed) in files.iter().filter_map(|(name, text)| file::parse(name, text).ok()).flatten() {
            let is_added = placed.entry.inherits.as_ref().is_some_and(|parent| *parent.get_ref() == id);
            if let Some(earlier) = known.get(&id).filter(|_| !is_added) {
                let (old, new) = ((&earlier.file, earlier.line), (&placed.file, placed.line));
                replaced.push(format!(
                    "{}:{}: {id} is defined anew in {}:{}, whose figures hold",
                    old.0, old.1, new.0, new.1
                ));
            }
            known.insert(id, placed);
        }
        replaced.extend(Self::renamed(files));
        replaced
    }

    /// Other names in `files` that stand for another device without the file, or are another device's own name.
    fn renamed(files: &[(String, String)]) -> Vec<String> {
        let mut renamed = Vec::new();
        for (at, (name, text)) in files.iter().enumerate() {
            let (Ok(before), Ok(own)) = (Self::with_files(&files[..at]), file::parse(name, text)) else { continue };
            let is_own = |id: &str| own.iter().any(|(other, _)| other == id);
            for (id, placed) in &own {
                for alias in &placed.entry.aliases {
                    let meant = before.called(alias).map(|device| device.id.as_str()).filter(|meant| *meant != id);
                    let Some(meant) = meant.filter(|meant| !is_own(meant)) else { continue };
                    let (place, is_id) =
                        (format!("{}:{}", placed.file, placed.line), comparable(meant) == comparable(alias));
                    renamed.push(if is_id {
                        format!("{place}: the other name `{alias}` of {id}: it is a device of its own")
                    } else {
                        format!("{place}: the name `{alias}` of {meant}: it is that of {id} now")
                    });
                }
            }
        }
        renamed
    }

    fn resolve(entries: &BTreeMap<String, Placed>) -> Result<Self, CatalogError> {
        let mut catalog = Self { devices: BTreeMap::new(), names: BTreeMap::new(), curves: BTreeMap::new() };
        for (id, placed) in entries {
            let profile = resolve::profile(id, placed, entries)?;
            catalog.devices.insert(id.clone(), Arc::new(profile));
            if !placed.entry.curve.is_empty() {
                let curves = placed.entry.curve.iter().map(|curve| curve.get_ref().clone()).collect();
                catalog.curves.insert(id.clone(), curves);
            }
        }
        catalog.names = names(entries);
        Ok(catalog)
    }

    /// The device called `name`: its id or an alias, letters of any case, with or without hyphens, or the name
    /// a driver reports for it.
    ///
    /// # Errors
    /// No such device; the error names the nearest.
    pub fn find(&self, name: &str) -> Result<&Arc<DeviceProfile>, UnknownDevice> {
        self.called(name).or_else(|| self.recognise(name)).ok_or_else(|| self.unknown(name))
    }

    /// The device called `name`, as [`Self::find`], but not by what drivers report.
    ///
    /// # Errors
    /// No such device; the error names the nearest.
    pub fn named(&self, name: &str) -> Result<&Arc<DeviceProfile>, UnknownDevice> {
        self.called(name).ok_or_else(|| self.unknown(name))
    }

    fn called(&self, name: &str) -> Option<&Arc<DeviceProfile>> {
        self.names.get(&comparable(name)).and_then(|id| self.devices.get(id))
    }

    /// The device that a driver or profiler recorded as `recorded`, e.g. `NVIDIA H100 80GB HBM3` or
    /// `AMD Instinct MI300X VF`: the one whose longest recorded name occurs in it, or its own name, which exports carry.
    pub fn recognise(&self, recorded: &str) -> Option<&Arc<DeviceProfile>> {
        let recorded = recorded.to_lowercase();
        let longest = |device: &DeviceProfile| {
            let own = device.name.to_lowercase();
            let names = device.recorded_as.iter().chain([&own]);
            names.filter(|name| contains_word(&recorded, name)).map(String::len).max()
        };
        let best = self.devices.values().filter_map(|device| longest(device).map(|length| (length, device)));
        best.max_by_key(|&(length, _)| length).map(|(_, device)| device)
    }

    /// The one chip with so many multiprocessors and so much memory, as drivers report it; `None` where several have as many, or none.
    pub fn alike(&self, sm_count: u32, memory: Bytes) -> Option<&Arc<DeviceProfile>> {
        let near = |device: &DeviceProfile| (memory.0 as f64 / device.memory.0.max(1) as f64 - 1.0).abs() < REPORTED;
        let is_alike = |device: &&Arc<DeviceProfile>| {
            // What no driver reports is nobody's.
            let is_recorded = !device.recorded_as.is_empty();
            device.kind == DeviceKind::Gpu && is_recorded && device.sm_count == sm_count && near(device)
        };
        let mut alike = self.devices.values().filter(is_alike);
        alike.next().filter(|_| sm_count > 0 && alike.next().is_none())
    }

    /// All devices in order of id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<DeviceProfile>> {
        self.devices.values()
    }

    /// The ids of the devices in the file `name` with contents `text`.
    ///
    /// # Errors
    /// It is no device file.
    pub fn devices_of(name: &str, text: &str) -> Result<Vec<String>, CatalogError> {
        Ok(file::parse(name, text)?.into_iter().map(|(id, _)| id).collect())
    }

    /// Collectives that device files give for devices: device and curves, in order of id.
    pub fn curves(&self) -> impl Iterator<Item = (&DeviceProfile, &[CollectiveCurve])> {
        self.curves.iter().filter_map(|(id, curves)| Some((self.devices.get(id)?.as_ref(), &curves[..])))
    }

    fn unknown(&self, name: &str) -> UnknownDevice {
        let known = self.names.iter().map(|(known, id)| (known.as_str(), id.as_str()));
        UnknownDevice { name: name.to_owned(), nearest: nearest(name, known) }
    }
}

/// Every id, and every other name of the last file that gives it, in comparable form → id.
fn names(entries: &BTreeMap<String, Placed>) -> BTreeMap<String, String> {
    let mut in_order: Vec<(&String, &Placed)> = entries.iter().collect();
    in_order.sort_by_key(|(_, placed)| placed.order);
    let aliases = in_order.iter().flat_map(|(id, placed)| placed.entry.aliases.iter().map(move |alias| (alias, *id)));
    let ids = entries.keys().map(|id| (id, id));
    aliases.chain(ids).map(|(name, id)| (comparable(name), id.clone())).collect()
}

/// Whether `name` occurs in `text` and does not end inside a longer word or number (`l4` is not in `l40s`).
fn contains_word(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(start, _)| {
        let outside = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        outside(text[..start].chars().next_back()) && outside(text[start + name.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests;
