//! Interconnects: bandwidth, latency and measured collective times by message size.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::catalog::Catalog;
use super::error::{CatalogError, Place};
use super::limits;
use super::peers;
use super::profile::{BandwidthCurve, DeviceProfile};

/// An interconnect between devices.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkProfile {
    /// Short name used in commands and files, e.g. `NVLink4`.
    pub id: String,
    /// Full name.
    pub name: String,
    /// Devices usually joined by it, by id.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Bandwidth of one device in one direction, in GB/s.
    pub gb_s: f64,
    /// Time of the smallest message between two devices, in µs.
    pub latency_us: f64,
    /// Most devices that it joins; 0 where that is as many as a node has.
    #[serde(default)]
    pub most: u32,
    /// Of one that joins nodes: how many a node has; 0 where every device has its own.
    #[serde(default)]
    pub ports: u32,
    /// Whether it joins nodes rather than devices of one node.
    #[serde(default)]
    pub between_nodes: bool,
    /// Whether it joins devices in pairs only, so that more ranks go another way.
    #[serde(default)]
    pub pairs_only: bool,
    /// Of devices that are wired each to every other, with no switch between them: how many, 0 otherwise. Among fewer ranks each
    /// device has only the wires to those.
    #[serde(default)]
    pub mesh: u32,
    /// Where bandwidth and latency are from.
    pub source: String,
    /// Measured collectives.
    #[serde(default, rename = "curve")]
    pub curves: Vec<CollectiveCurve>,
    /// Where nothing was measured on it: those of its kind on which something was, and which carry as much and as soon. It takes no less
    /// than they do.
    #[serde(skip)]
    pub bounded_by: Vec<LinkProfile>,
}

impl LinkProfile {
    /// Whether any collective was measured on it.
    pub fn is_measured(&self) -> bool {
        self.curves.iter().any(|curve| !curve.carried)
    }

    /// Whether its devices share the way through their host, which other machines share otherwise.
    pub fn is_bus(&self) -> bool {
        peers::is_bus(self)
    }

    /// The interconnect of a device that no catalog entry joins, from its own figures.
    pub fn of_figures(device: &DeviceProfile) -> Self {
        let rate = if device.peer_link.0 > 0.0 { device.peer_link.0 } else { device.host_link.0.max(1.0) };
        Self {
            id: device.id.clone(),
            name: format!("between {}", device.name),
            devices: Vec::new(),
            gb_s: rate / 1e9,
            latency_us: 10.0,
            most: 0,
            ports: 0,
            between_nodes: false,
            pairs_only: false,
            mesh: 0,
            source: "the device's own figures".to_owned(),
            curves: Vec::new(),
            bounded_by: Vec::new(),
        }
    }

    /// Share of a device's bandwidth that leads to the others of `ranks` ranks.
    pub fn reachable(&self, ranks: u32) -> f64 {
        if self.mesh < 2 {
            return 1.0;
        }
        f64::from(ranks.clamp(2, self.mesh) - 1) / f64::from(self.mesh - 1)
    }
}

/// Times of one collective among `ranks` ranks by message size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveCurve {
    /// The interconnect, where the curve is not written under it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub link: String,
    /// `all-reduce`, `all-to-all`, `all-gather` or `reduce-scatter`.
    pub collective: String,
    /// Ranks taking part; of a link between nodes half of them on each of two.
    pub ranks: u32,
    /// Of a link between nodes: ports of each, where not as the link has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<u32>,
    /// Buffer sizes in bytes, rising (for all-gather and reduce-scatter the whole buffer, not a rank's part).
    #[serde(default)]
    pub bytes: Vec<f64>,
    /// Times in µs at those sizes, never falling.
    #[serde(default)]
    pub us: Vec<f64>,
    /// A three-region fit instead of points, as published or of `calibrate --model three-region`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<BandwidthCurve>,
    /// Mean absolute relative error on sizes that were left out of the fit.
    pub error: f64,
    /// Measurements.
    pub n: u32,
    /// Where they are from.
    pub source: String,
    /// Whether nobody measured it: carried over from another number of ranks, or from other interconnects.
    #[serde(skip)]
    pub carried: bool,
}

/// How wrong times among twice the ranks are that were carried over from other interconnects.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doubling {
    /// Mean absolute relative error, each family of devices left out of the ratio in turn.
    pub error: f64,
    /// Measurements.
    pub n: u32,
    /// Where they are from.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    doubling: Option<Doubling>,
    #[serde(default)]
    link: Vec<Spanned<LinkProfile>>,
    /// Curves of interconnects that this file or one before it names.
    #[serde(default)]
    curve: Vec<Spanned<CollectiveCurve>>,
}

/// The interconnects that come with the program, and the curves fitted to measurements.
const BUILTIN: [(&str, &str); 2] = [
    ("links.toml", include_str!("catalog/links.toml")),
    ("link-curves.toml", include_str!("catalog/link-curves.toml")),
];

/// All known interconnects.
#[derive(Clone, Debug)]
pub struct Links {
    links: Vec<LinkProfile>,
    doubling: Option<Doubling>,
}

impl Links {
    /// The interconnects that come with the program.
    ///
    /// # Errors
    /// The built-in file is damaged.
    pub fn builtin() -> Result<Self, CatalogError> {
        Self::with_files(&[])
    }

    /// The built-in interconnects, and those of `files` (name and contents); a later one replaces one of the same id.
    ///
    /// # Errors
    /// The first file that cannot be used, with the line.
    pub fn with_files(files: &[(String, String)]) -> Result<Self, CatalogError> {
        let mut found = Self { links: Vec::new(), doubling: None };
        for (file, text) in BUILTIN {
            found.read(file, text)?;
        }
        found.doubt_buses();
        for (file, text) in files {
            found.read(file, text)?;
        }
        // Where nothing was measured goes by all that is known of the others.
        for is_measured in [true, false] {
            let lacks = |link: &&LinkProfile| link.curves.is_empty() != is_measured;
            let missing = |link| if lacks(&link) { found.missing(link) } else { Vec::new() };
            let carried: Vec<_> = found.links.iter().map(missing).collect();
            for (link, curves) in found.links.iter_mut().zip(carried) {
                link.curves.extend(curves);
            }
        }
        let bounds: Vec<_> = found.links.iter().map(|link| peers::bounds(link, &found.links)).collect();
        for (link, bounds) in found.links.iter_mut().zip(bounds) {
            link.bounded_by = bounds;
        }
        Ok(found)
    }

    fn read(&mut self, file: &str, text: &str) -> Result<(), CatalogError> {
        let parsed: LinkFile = toml::from_str(text).map_err(|error| CatalogError::syntax(file, text, &error))?;
        for link in parsed.link {
            let place = Place { file, text, start: link.span().start };
            let link = link.into_inner();
            check(place, &link)?;
            self.links.retain(|known| known.id != link.id);
            self.links.push(link);
        }
        for curve in parsed.curve {
            attach(Place { file, text, start: curve.span().start }, &mut self.links, curve.into_inner())?;
        }
        self.doubling = parsed.doubling.or(self.doubling.take());
        Ok(())
    }

    /// Lets times over buses among more than two ranks err by what those of one machine are off those of another.
    fn doubt_buses(&mut self) {
        let Some((error, _)) = self.unmeasured_error(false) else { return };
        let buses = self.links.iter_mut().filter(|link| link.is_bus());
        for curve in buses.flat_map(|link| &mut link.curves).filter(|curve| curve.ranks > 2) {
            curve.error = curve.error.max(error);
        }
    }

    /// Adds the collectives measured on the devices of `catalog`: each device gets an interconnect of its own, with what is known
    /// of the one it has otherwise where nothing was measured.
    pub fn add_measured(&mut self, catalog: &Catalog) {
        for (device, curves) in catalog.curves() {
            let known = self.of_device(device).cloned();
            let mut link = known.unwrap_or_else(|| LinkProfile::of_figures(device));
            link.id.clone_from(&device.id);
            link.devices = vec![device.id.clone()];
            link.curves.retain(|known| !known.carried);
            for curve in curves {
                link.curves.retain(|known| known.collective != curve.collective || known.ranks != curve.ranks);
                link.curves.push(curve.clone());
            }
            let carried = self.missing(&link);
            link.curves.extend(carried);
            link.bounded_by = peers::bounds(&link, &self.links);
            self.links.insert(0, link);
        }
    }

    fn missing(&self, link: &LinkProfile) -> Vec<CollectiveCurve> {
        if link.curves.is_empty() {
            let carry = if link.between_nodes { peers::between_nodes } else { peers::of_kind };
            return carry(link, &self.links);
        }
        let error = self.doubling.as_ref().map_or(peers::UNMEASURED_DOUBLING, |doubling| doubling.error);
        peers::missing(link, &self.links, error)
    }

    /// What was measured of times among twice the ranks.
    pub fn doubling(&self) -> Option<&Doubling> {
        self.doubling.as_ref()
    }

    /// Mean absolute relative error of interconnects that nobody measured, by others of their kind (fabrics of devices, or buses
    /// through the host), and on how many points: each bandwidth that was measured left out in turn.
    pub fn unmeasured_error(&self, fabrics: bool) -> Option<(f64, usize)> {
        peers::error_of_kind(&self.links, fabrics)
    }

    /// The interconnect called `name`, letters of any case.
    pub fn find(&self, name: &str) -> Option<&LinkProfile> {
        self.links.iter().find(|link| link.id.eq_ignore_ascii_case(name))
    }

    /// The interconnect inside a node of `device`, else of the nearest one that it inherits from.
    pub fn of_device(&self, device: &DeviceProfile) -> Option<&LinkProfile> {
        let of = |id: &String| self.links.iter().find(|link| !link.between_nodes && link.devices.contains(id));
        std::iter::once(&device.id).chain(&device.lineage).find_map(of)
    }

    /// All of them, in the order of the files.
    pub fn iter(&self) -> impl Iterator<Item = &LinkProfile> {
        self.links.iter()
    }
}

/// Puts `curve` under its interconnect, in place of one of the same collective and ranks.
fn attach(place: Place<'_>, links: &mut [LinkProfile], curve: CollectiveCurve) -> Result<(), CatalogError> {
    let Some(link) = links.iter_mut().find(|link| link.id == curve.link) else {
        return Err(place.bad(
            &curve.collective,
            "link",
            &curve.link,
            "an interconnect of this file or a built-in one",
        ));
    };
    check_curve(place, &link.id, &curve)?;
    link.curves.retain(|known| known.collective != curve.collective || known.ranks != curve.ranks);
    link.curves.push(curve);
    Ok(())
}

fn check(place: Place<'_>, link: &LinkProfile) -> Result<(), CatalogError> {
    for (key, value, range) in [("gb_s", link.gb_s, limits::GB_S), ("latency_us", link.latency_us, limits::TIME_US)] {
        if !range.contains(&value) {
            return Err(place.bad(&link.id, key, &limits::written(value), &limits::words(&range)));
        }
    }
    let curves = link.curves.iter().enumerate();
    curves.into_iter().try_for_each(|(at, curve)| check_curve(place.entry("curve]]", at), &link.id, curve))
}

/// Collectives that can be measured.
const COLLECTIVES: [&str; 6] = ["all-reduce", "all-to-all", "all-gather", "reduce-scatter", "broadcast", "send-recv"];

/// # Errors
/// `curve`, of the device or interconnect `id`, is of no collective, or its sizes do not rise or its times fall.
pub(super) fn check_curve(place: Place<'_>, id: &str, curve: &CollectiveCurve) -> Result<(), CatalogError> {
    let id = format!("{id}.curve");
    let out_of_order = |list: &[f64], strictly: bool| {
        let wrong = |pair: &[f64]| pair[0] > pair[1] || (strictly && pair[0] >= pair[1]);
        let value = list.iter().find(|value| !value.is_finite() || **value <= 0.0).map(|value| limits::written(*value));
        value.or_else(|| {
            list.windows(2)
                .find(|pair| wrong(pair))
                .map(|pair| format!("{} after {}", limits::written(pair[1]), limits::written(pair[0])))
        })
    };
    if !COLLECTIVES.contains(&curve.collective.as_str()) {
        let expected = "all-reduce, all-to-all, all-gather, reduce-scatter, broadcast or send-recv";
        return Err(place.bad(&id, "collective", &curve.collective, expected));
    }
    if curve.ranks < 2 {
        return Err(place.bad(&id, "ranks", &curve.ranks.to_string(), "two or more"));
    }
    if !limits::ERROR.contains(&curve.error) {
        return Err(place.bad(&id, "error", &limits::written(curve.error), &limits::words(&limits::ERROR)));
    }
    if let Some((key, value, range)) = curve.fit.as_ref().and_then(limits::wrong_in) {
        return Err(place.bad(&id, &format!("fit.{key}"), &limits::written(value), &limits::words(&range)));
    }
    for (key, values, range) in [("bytes", &curve.bytes, limits::SIZE_BYTES), ("us", &curve.us, limits::TIME_US)] {
        if let Some(value) = values.iter().find(|value| !range.contains(value)) {
            return Err(place.bad(&id, key, &limits::written(*value), &limits::words(&range)));
        }
    }
    if curve.bytes.len() != curve.us.len() || (curve.fit.is_none() && curve.bytes.len() < 2) {
        let lengths = format!("{} times for {} sizes", curve.us.len(), curve.bytes.len());
        return Err(place.bad(&id, "us", &lengths, "as many times as sizes, two or more, or a fit"));
    }
    if let Some(found) = out_of_order(&curve.bytes, true) {
        return Err(place.bad(&id, "bytes", &found, "sizes above 0 that rise"));
    }
    if let Some(found) = out_of_order(&curve.us, false) {
        return Err(place.bad(&id, "us", &found, "times above 0 that never fall"));
    }
    Ok(())
}

impl CollectiveCurve {
    /// Ports that each of the two nodes had to the other, measured over `between`.
    pub fn ports_of(&self, between: &LinkProfile) -> u32 {
        let devices = (self.ranks / 2).max(1);
        match self.ports.unwrap_or(between.ports) {
            0 => devices,
            ports => ports.min(devices),
        }
    }

    /// Time in µs of a buffer of `bytes` with `factor · bytes` on the bus, and whether that lies outside the measured
    /// sizes. Between points time is linear in size (a latency and a bandwidth for each stretch); beyond the last the bandwidth
    /// stays that of the last.
    pub fn time_us(&self, bytes: f64, factor: f64) -> (f64, bool) {
        if let Some(fit) = &self.fit {
            return (fit.transfer_us(bytes, factor), false);
        }
        let (Some((&first, _)), Some((&last, _))) = (self.bytes.split_first(), self.bytes.split_last()) else {
            return (0.0, true);
        };
        if bytes <= first {
            return (self.us[0], bytes < first);
        }
        if bytes >= last {
            return (self.us[self.us.len() - 1] * bytes / last, bytes > last);
        }
        let at = self.bytes.partition_point(|&size| size <= bytes).clamp(1, self.bytes.len() - 1);
        let (x0, x1, y0, y1) = (self.bytes[at - 1], self.bytes[at], self.us[at - 1], self.us[at]);
        (y0 + (y1 - y0) * (bytes - x0) / (x1 - x0), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_collective_times_never_fall_with_size() {
        let links = Links::builtin().unwrap();
        for link in links.iter() {
            for curve in &link.curves {
                let times: Vec<f64> = (0..360).map(|i| curve.time_us(2f64.powf(f64::from(i) / 10.0), 1.0).0).collect();
                assert!(
                    times.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-9)),
                    "{} {}",
                    link.id,
                    curve.collective
                );
            }
        }
    }

    #[test]
    fn a_bus_of_half_the_bandwidth_is_slower_and_one_machine_does_not_tell_of_all() {
        let links = Links::builtin().unwrap();
        let curve = |name: &str, ranks: u32| {
            let curves = &links.find(name).unwrap().curves;
            curves.iter().find(|curve| curve.collective == "all-reduce" && curve.ranks == ranks).unwrap()
        };
        for ranks in [2, 4, 8] {
            let [slow, fast] = ["PCIe3", "PCIe4"].map(|name| curve(name, ranks).time_us(1e8, 1.0).0);
            assert!(slow > 1.1 * fast, "{ranks}: {slow} {fast}");
        }
        let between_buses = links.unmeasured_error(false).unwrap().0;
        assert!(curve("PCIe4", 2).error < between_buses && curve("PCIe4", 8).error >= between_buses);
    }

    #[test]
    fn a_bad_link_file_names_what_is_wrong() {
        let file =
            |text: &str| Links::with_files(&[("mine.toml".to_owned(), text.to_owned())]).unwrap_err().to_string();
        let head = "[[link]]\nid = \"X\"\nname = \"X\"\nlatency_us = 1\nsource = \"s\"\n";
        assert!(file(&format!("{head}gb_s = 0\n")).starts_with("mine.toml:6: X.gb_s is 0"));
        assert!(file(&format!("{head}speed = 3\n")).starts_with("mine.toml:6: "));
        let curve = "[[link.curve]]\ncollective = \"all-reduce\"\nranks = 2\nbytes = [1, 2]\nus = [2, 1]\nerror = 0\nn = 2\nsource = \"s\"\n";
        let falling = file(&format!("{head}gb_s = 3\n{curve}"));
        assert!(
            falling.starts_with("mine.toml:11: X.curve.us is 1 after 2: expected times")
                && falling.contains("never fall")
        );
        let (good, other) = (curve.replace("[2, 1]", "[1, 2]"), curve.replace("all-reduce", "all-redduce"));
        let second = file(&format!("{head}gb_s = 3\n{good}{other}"));
        assert!(
            second.starts_with("mine.toml:16: X.curve.collective is all-redduce: expected all-reduce,"),
            "{second}"
        );
        let stray = good.replace("link.curve", "curve").replace("ranks", "link = \"Y\"\nranks");
        assert!(file(&stray).starts_with("mine.toml:3: all-reduce.link is Y: expected an interconnect"));
    }
}
