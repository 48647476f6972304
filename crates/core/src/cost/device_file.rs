//! What was measured of a device as the text of a device file, and the fits of such a file read back. The only place that knows
//! how fits are written there; the device's other keys are the catalog's.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::cost::call_overhead::BEFORE;
use crate::cost::copies::{CopyCurve, CopyKind};
use crate::cost::domain::Domain;
use crate::cost::fits::{Choice, Fit};
use crate::cost::forest::Forest;
use crate::cost::mlp::Mlp;
use crate::cost::parameterised::{MeasuredProduct, ProductRates};
use crate::cost::scale::Scale;
use crate::cost::structured::defaults;
use crate::cost::work::Route;
use crate::device::{BandwidthCurve, CatalogError, CollectiveCurve, Precision, limits, line_of};

/// One `[[DEVICE.fit]]`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFit {
    domain: Domain,
    model: Choice,
    parameters: Vec<f64>,
    host_floor_us: f64,
    /// Part of that time that passes before the kernel starts.
    #[serde(default = "unknown_lead")]
    host_before: f64,
    /// Mean absolute relative error on held-out rows.
    error: f64,
    structured_error: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network_error: Option<f64>,
    n_train: u32,
    n_test: u32,
    /// Logarithms to base 2 of the smallest and largest of each size.
    ranges: Vec<(f32, f32)>,
    #[serde(default)]
    precisions: Vec<Precision>,
    source: String,
    /// The trees, two hexadecimal digits a byte.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    trees: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network: Option<Mlp>,
}

fn unknown_lead() -> f64 {
    BEFORE
}

#[derive(Serialize)]
struct WrittenDevice<'a> {
    inherits: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    figures: &'a BTreeMap<&'static str, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dram_curve: Option<BandwidthCurve>,
    sources: BTreeMap<&'static str, &'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    curve: &'a [CollectiveCurve],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    copy: Vec<WrittenCopy>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    scale: &'a [Scale],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    product: &'a [MeasuredProduct],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fit: Vec<WrittenFit>,
}

/// One `[[DEVICE.copy]]`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCopy {
    route: Route,
    /// Whether the host's memory is pinned, where the host takes part and it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pinned: Option<bool>,
    /// Time of the smallest.
    start_us: f64,
    /// Rate over what the device's figures give.
    rate: f64,
    /// Mean absolute relative error on copies it was not fitted to.
    error: f64,
}

/// What device files hold for cost models.
#[derive(Clone, Debug, Default)]
pub struct MeasuredModels {
    /// Fits by domain.
    pub fits: Vec<Fit>,
    /// Curves of copies.
    pub copies: Vec<(CopyKind, CopyCurve)>,
    /// Factors by device.
    pub scales: Vec<(String, Scale)>,
    /// Measured products by device.
    pub products: Vec<(String, ProductRates)>,
}

/// What is read of a device: its fits, curves of copies and factors. The catalog reads, and checks, the rest.
#[derive(Deserialize)]
struct ReadDevice {
    #[serde(default)]
    fit: Vec<Spanned<WrittenFit>>,
    #[serde(default)]
    copy: Vec<Spanned<WrittenCopy>>,
    #[serde(default)]
    scale: Vec<Spanned<Scale>>,
    #[serde(default)]
    product: Vec<Spanned<MeasuredProduct>>,
}

/// What was measured of one device.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredDevice<'a> {
    /// Its id in the device file.
    pub id: &'a str,
    /// The known device it inherits from.
    pub inherits: &'a str,
    /// Figures by key of device files.
    pub figures: &'a BTreeMap<&'static str, f64>,
    /// Bandwidth by size.
    pub dram_curve: Option<BandwidthCurve>,
    /// Curves of collectives.
    pub curves: &'a [CollectiveCurve],
    /// Curves of copies.
    pub copies: &'a [(CopyKind, CopyCurve)],
    /// Factors of models that are not fitted as a whole.
    pub scales: &'a [Scale],
    /// Products, where the model is the parameterised roofline.
    pub products: &'a [MeasuredProduct],
    /// Fits by domain.
    pub fits: &'a [Fit],
}

impl MeasuredDevice<'_> {
    /// Its device file.
    ///
    /// # Errors
    /// None in practice: every value can be written.
    pub fn text(&self) -> Result<String, toml::ser::Error> {
        let device = WrittenDevice {
            inherits: self.inherits,
            figures: self.figures,
            dram_curve: self.dram_curve,
            sources: BTreeMap::from([("default", "measured; written by retime calibrate")]),
            curve: self.curves,
            copy: self.copies.iter().map(written_copy).collect(),
            scale: self.scales,
            product: self.products,
            fit: self.fits.iter().map(written).collect(),
        };
        let text = toml::to_string(&BTreeMap::from([(self.id, device)]))?;
        Ok(format!(
            "# Written by `retime calibrate`; copy to the folder `devices` of retime's configuration to use it.\n\n{text}"
        ))
    }
}

fn written_copy(((_, route, pinned), curve): &(CopyKind, CopyCurve)) -> WrittenCopy {
    let &CopyCurve { start_us, rate, error } = curve;
    WrittenCopy { route: *route, pinned: *pinned, start_us, rate, error }
}

fn written(fit: &Fit) -> WrittenFit {
    WrittenFit {
        domain: fit.domain,
        model: fit.choice,
        parameters: fit.parameters.clone(),
        host_floor_us: fit.host_floor_us,
        host_before: fit.host_before,
        error: fit.error,
        structured_error: fit.structured_error,
        network_error: fit.network_error,
        n_train: fit.n_train,
        n_test: fit.n_test,
        ranges: fit.ranges.clone(),
        precisions: fit.precisions.clone(),
        source: fit.source.clone(),
        trees: digits_of(&fit.forest.encode()),
        network: fit.network.clone(),
    }
}

/// The fits, curves of copies and factors in the device file `file` with contents `text`.
///
/// # Errors
/// The first that cannot be used, with line and key.
pub fn read_fits(file: &str, text: &str) -> Result<MeasuredModels, CatalogError> {
    let devices: BTreeMap<String, ReadDevice> =
        toml::from_str(text).map_err(|error| CatalogError::syntax(file, text, &error))?;
    let mut found = MeasuredModels::default();
    for (device, read) in devices {
        let place = |span| Place { file, line: line_of(text, Some(span)), device: &device };
        for fit in read.fit {
            found.fits.push(checked(place(fit.span()), fit.into_inner())?);
        }
        for copy in read.copy {
            let place = place(copy.span());
            let WrittenCopy { route, pinned, start_us, rate, error } = copy.into_inner();
            place.within("copy.start_us", start_us, limits::TIME_US)?;
            place.within("copy.rate", rate, limits::FACTOR)?;
            place.within("copy.error", error, limits::ERROR)?;
            found.copies.push(((device.clone(), route, pinned), CopyCurve { start_us, rate, error }));
        }
        for scale in read.scale {
            let (place, scale) = (place(scale.span()), scale.into_inner());
            place.within("scale.factor", scale.factor, limits::FACTOR)?;
            place.within("scale.error", scale.error, limits::ERROR)?;
            found.scales.push((device.clone(), scale));
        }
        let mut products = Vec::with_capacity(read.product.len());
        for product in read.product {
            let (place, product) = (place(product.span()), product.into_inner());
            let expected = "sizes and seconds above 0 that a device can reach";
            if !product.is_sound() {
                return Err(place.bad("product.seconds", product.seconds.to_string(), expected.to_owned()));
            }
            products.push(product);
        }
        if !products.is_empty() {
            found.products.push((device.clone(), ProductRates::new(products)));
        }
    }
    Ok(found)
}

/// Where an entry stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    file: &'a str,
    line: usize,
    device: &'a str,
}

impl Place<'_> {
    fn within(self, key: &str, value: f64, range: RangeInclusive<f64>) -> Result<(), CatalogError> {
        if range.contains(&value) { Ok(()) } else { Err(self.bad(key, limits::written(value), limits::words(&range))) }
    }

    fn bad(self, key: &str, value: String, expected: String) -> CatalogError {
        let Self { file, line, device } = self;
        let (file, device, key, expected) = (file.to_owned(), device.to_owned(), key.to_owned(), expected.into());
        CatalogError::BadFigure { file, line, device, key, value, expected }
    }
}

fn checked(place: Place<'_>, fit: WrittenFit) -> Result<Fit, CatalogError> {
    let key = |key: &str| format!("fit.{}.{key}", fit.domain.name());
    let bad = |name: &str, value: String, expected: &str| Err(place.bad(&key(name), value, expected.to_owned()));
    // Parameters are factors, exponents, times and rates: in the limits of the widest.
    let positive = |value: &f64| (f64::MIN_POSITIVE..=1e12).contains(value);
    if fit.parameters.len() != defaults(fit.domain).len() || !fit.parameters.iter().all(positive) {
        return bad("parameters", format!("{:?}", fit.parameters), "the domain's parameters, all above 0");
    }
    let errors = [("error", fit.error), ("structured_error", fit.structured_error)];
    let errors = errors.into_iter().chain(fit.network_error.map(|error| ("network_error", error)));
    let host = [("host_floor_us", fit.host_floor_us, limits::TIME_US), ("host_before", fit.host_before, 0.0..=1.0)];
    for (name, value, range) in errors.map(|(name, value)| (name, value, limits::ERROR)).chain(host) {
        place.within(&key(name), value, range)?;
    }
    let Some(forest) = bytes_of(&fit.trees).and_then(|bytes| Forest::decode(&bytes).ok()) else {
        return bad("trees", format!("{} digits", fit.trees.len()), "whole trees in hexadecimal digits");
    };
    if fit.network.as_ref().is_some_and(|network| !network.is_sound()) {
        return bad("network", "weights".to_owned(), "as many weights as its layers have");
    }
    Ok(Fit {
        domain: fit.domain,
        devices: vec![place.device.to_owned()],
        choice: fit.model,
        parameters: fit.parameters,
        host_floor_us: fit.host_floor_us,
        host_before: fit.host_before,
        error: fit.error,
        geometric_error: None,
        structured_error: fit.structured_error,
        sibling_error: fit.structured_error,
        network_error: fit.network_error,
        n_train: fit.n_train,
        n_test: fit.n_test,
        ranges: fit.ranges,
        precisions: fit.precisions,
        source: fit.source,
        network: fit.network,
        dram_gb_s: 0.0,
        forest,
    })
}

fn digits_of(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok().filter(|_| pair.len() == 2)).collect()
}
