//! Tables of measurements → all that is fitted for one device: fits by domain, collective curves, figures.

mod figures;
mod tables;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use self::tables::{RowsOfDevice, Tables, are_whole_calls};
use super::fit::{FEWEST, FEWEST_QUICK};
use super::forest::Hyperparameters;
use super::mlp::MlpConfig;
use super::{
    FamilyUse, FitError, FitErrors, FitPrior, Measurement, Sample, Timed, Tuning, calibrate, calibrate_quick,
    carried_quick, counterpart, summarise,
};
use retime_core::cost::copies::{CopyCurve, CopyKind};
use retime_core::cost::device_file::MeasuredDevice;
use retime_core::cost::domain::Domain;
use retime_core::cost::fits::{Fit, Fits};
use retime_core::cost::parameterised::{MeasuredProduct, ProductRates};
use retime_core::cost::roofline;
use retime_core::cost::scale::{Scale, ScaleKind};
use retime_core::cost::structured::{BANDWIDTH, COMPUTE, START_US};
use retime_core::cost::work::{Family, Shape, Work};
use retime_core::device::{BandwidthCurve, Catalog, CollectiveCurve, DeviceProfile};

/// What is to be calibrated and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Target<'a> {
    /// Which device of the files, and the name of the result; needed where the files hold several.
    pub device: Option<&'a str>,
    /// The known device whose figures hold where nothing was measured; without it the one the files name.
    pub inherits: Option<&'a str>,
    /// Fit the three device constants to products only.
    pub is_quick: bool,
    /// What is made of the measurements.
    pub model: Model,
    /// Try the networks of the paper's grid rather than a few small ones: hours.
    pub is_paper_grid: bool,
}

/// What measurements are made into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// Parameters by kind of kernel, and curves of collectives through their points.
    #[default]
    Fitted,
    /// The measured products themselves: the parameterised roofline [Cardwell 2019 ch. 3].
    Parameterised,
    /// As fitted, collectives in three regions [Lin 2024 §IV-A].
    ThreeRegion,
}

/// One fit with its errors on held-out rows.
#[derive(Clone, Debug, Serialize)]
pub struct DomainReport {
    /// What was fitted.
    pub domain: String,
    /// What was chosen.
    pub model: String,
    /// Rows fitted to.
    pub n_train: u32,
    /// Errors of the chosen model and of baselines.
    #[serde(flatten)]
    pub errors: FitErrors,
    /// Mean absolute error of the best network tried, on those of `kernels`; none where none was.
    pub network: Option<f64>,
}

/// All that is known of a device from its measurements.
#[derive(Clone, Debug)]
pub struct DeviceCalibration {
    /// Its id in the device file.
    pub id: String,
    /// The known device it inherits from.
    pub inherits: String,
    /// Fits.
    pub fits: Vec<Fit>,
    /// Collective curves.
    pub curves: Vec<CollectiveCurve>,
    /// Measured figures by key of device files.
    pub figures: BTreeMap<&'static str, f64>,
    /// Bandwidth by size.
    pub dram_curve: Option<BandwidthCurve>,
    /// Curves of copies.
    pub copies: Vec<(CopyKind, CopyCurve)>,
    /// Factors of models that are not fitted as a whole.
    pub scales: Vec<Scale>,
    /// Products of the parameterised roofline.
    pub products: Vec<MeasuredProduct>,
    /// How the families of the tables were used.
    pub families: Vec<FamilyUse>,
    /// Errors, a row per fit and curve.
    pub report: Vec<DomainReport>,
    /// What was read but not used, with the reason.
    pub unused: Vec<String>,
    /// What speaks against the measurements, although they are used.
    pub warnings: Vec<String>,
}

impl DeviceCalibration {
    /// Its device file.
    ///
    /// # Errors
    /// None in practice: every value can be written.
    pub fn file(&self) -> Result<String, toml::ser::Error> {
        let Self { id, inherits, figures, dram_curve, curves, copies, scales, products, fits, .. } = self;
        MeasuredDevice { id, inherits, figures, dram_curve: *dram_curve, curves, copies, scales, products, fits }.text()
    }
}

/// Fits everything that `files` (name and contents) say about one device.
///
/// # Errors
/// The first file that cannot be used, with its name; or what keeps the whole from being fitted, without one.
pub fn calibrate_device(
    catalog: &Catalog,
    fits: &Fits,
    files: &[(String, String)],
    target: Target<'_>,
) -> Result<DeviceCalibration, (String, FitError)> {
    let tables = Tables::read(files)?;
    let whole = |error| (String::new(), error);
    let recorded = tables.device(target.device).map_err(whole)?;
    let known = target.inherits.unwrap_or(&recorded);
    let unknown = || match known {
        "" => FitError::NoDevice,
        _ => FitError::UnknownDevice { device: known.to_owned() },
    };
    let base = catalog.find(known).map_err(|_| whole(unknown()))?;
    let id = target.device.map_or_else(|| base.id.clone(), str::to_owned);
    let device = base.heir(&id);
    let mut found = DeviceCalibration {
        id,
        inherits: base.id.clone(),
        fits: Vec::new(),
        curves: Vec::new(),
        figures: BTreeMap::new(),
        dram_curve: None,
        copies: Vec::new(),
        scales: Vec::new(),
        products: Vec::new(),
        families: tables.families.clone(),
        report: Vec::new(),
        unused: tables.unused.clone(),
        warnings: Vec::new(),
    };
    let RowsOfDevice { rows, left, warning } = tables.rows_of(&recorded, &device)?;
    found.unused.extend(left);
    found.warnings.extend(warning);
    if target.model == Model::Parameterised {
        return found.keep_products(&rows).map_err(whole);
    }
    if target.model == Model::ThreeRegion && tables.collectives.is_empty() {
        return Err(whole(FitError::Nothing("--model three-region takes tables of collectives".to_owned())));
    }
    found.fit_domains(&device, fits, &rows, target).map_err(whole)?;
    if !target.is_quick {
        found.measure_figures(&device, &rows);
        let device = found.with_figures(device);
        found.fit_copies(&device, &rows);
        found.fit_scales(&device, fits, &rows);
        let (collectives, others) = tables.collectives_of(&recorded);
        found.unused.extend(others);
        found.fit_curves(&collectives, target.model);
    }
    if found.fits.is_empty() && found.curves.is_empty() && found.copies.is_empty() && found.scales.is_empty() {
        return Err(whole(FitError::Nothing(found.unused.join("; "))));
    }
    Ok(found)
}

impl DeviceCalibration {
    /// The products among `rows`, of equal sizes their mean, with the error of each from the others.
    fn keep_products(mut self, rows: &[Measurement]) -> Result<Self, FitError> {
        let precisions: BTreeSet<&str> = rows.iter().map(|row| row.work.precision.type_name()).collect();
        if precisions.len() > 1 {
            let several = precisions.into_iter().collect::<Vec<_>>().join(", ");
            let why = format!("--model parameterised keeps products of one type of numbers, the tables have {several}");
            return Err(FitError::Nothing(why));
        }
        let mut by_size: BTreeMap<[u64; 3], Vec<f64>> = BTreeMap::new();
        for row in rows {
            match row.work.shape {
                Shape::Gemm { batch: 1, m, n, k } => by_size.entry([m, n, k]).or_default().push(row.us / 1e6),
                _ => self.unused.push(format!("a row of {}: the model keeps single products", row.work.family.name())),
            }
        }
        self.unused.dedup();
        self.products = by_size
            .into_iter()
            .map(|([m, n, k], seconds)| {
                let [m, n, k] = [m, n, k].map(|size| size as f64);
                MeasuredProduct { m, n, k, seconds: seconds.iter().sum::<f64>() / seconds.len() as f64 }
            })
            .collect();
        let rates = ProductRates::new(self.products.iter().copied());
        if rates.rows().is_empty() {
            return Err(FitError::Nothing("--model parameterised takes matrix products".to_owned()));
        }
        let errors = summarise(rates.left_out().map(|(row, seconds)| (seconds * 1e6, row.seconds * 1e6)));
        self.report.push(DomainReport {
            domain: "products".to_owned(),
            model: "parameterised".to_owned(),
            n_train: rates.rows().len() as u32,
            errors: FitErrors::of(errors),
            network: None,
        });
        Ok(self)
    }

    fn fit_domains(
        &mut self,
        device: &DeviceProfile,
        known: &Fits,
        rows: &[Measurement],
        target: Target<'_>,
    ) -> Result<(), FitError> {
        let is_quick = target.is_quick;
        let mut groups: BTreeMap<Domain, Vec<Measurement>> = BTreeMap::new();
        for row in rows {
            let Some(domain) = Domain::of(&row.work).filter(|_| ScaleKind::of(&row.work).is_none()) else { continue };
            let mut row = row.clone();
            if row.work.family == Family::Reduction {
                // Predictions of reductions add the second start.
                row.us = (row.us - device.kernel_start.secs() * 1e6).max(0.5);
            }
            groups.entry(domain).or_default().push(row);
        }
        let measured: Vec<Domain> = groups.keys().copied().collect();
        for (domain, mut rows) in groups {
            if are_whole_calls(&rows) {
                for row in &mut rows {
                    row.timed = Timed::Call;
                }
            }
            let sample = Sample { domain, device, rows: &rows };
            let source = format!("calibrated from {} measurements", rows.len());
            if is_quick && !domain.is_product() {
                self.unused.push(format!("{} rows of {} (--quick takes products only)", rows.len(), domain.name()));
            } else if !is_quick && rows.len() >= FEWEST {
                let common = known.unseen(domain).map(|unseen| &unseen.parameters[..]);
                let prior = FitPrior { common, companions: &[] };
                match calibrate(sample, prior, &source, &tuning(rows.len(), target)) {
                    Ok(found) => self.keep(domain, &found),
                    Err(error) => self.unused.push(error.to_string()),
                }
            } else if rows.len() >= FEWEST_QUICK {
                let carries = is_quick && counterpart(domain).is_some_and(|other| !measured.contains(&other));
                self.fit_constants(sample, known, (&source, carries))?;
            } else {
                let (rows, domain) = (rows.len(), domain.name());
                self.unused.push(FitError::TooFew { rows, domain, needed: FEWEST_QUICK }.to_string());
            }
        }
        Ok(())
    }

    fn keep(&mut self, domain: Domain, found: &super::Calibrated) {
        self.report.push(DomainReport {
            domain: domain.name().to_owned(),
            model: found.fit.choice.name().to_owned(),
            n_train: found.fit.n_train,
            errors: found.errors,
            network: found.fit.network_error,
        });
        self.fits.push(found.fit.clone());
    }

    /// The three device constants, the rest as known of the device or of any; where that is asked for also those of products on the same
    /// units that nothing was measured of.
    fn fit_constants(
        &mut self,
        sample: Sample<'_>,
        known: &Fits,
        (source, carries): (&str, bool),
    ) -> Result<(), FitError> {
        let base = known.parameters(sample.domain, sample.device);
        let (fit, error) = calibrate_quick(sample, &base, source)?;
        let over =
            |predict: &dyn Fn(&Work) -> f64| summarise(sample.rows.iter().map(|row| (predict(&row.work), row.us)));
        self.report.push(DomainReport {
            domain: sample.domain.name().to_owned(),
            model: format!(
                "constants: compute {:.2}, bandwidth {:.2}, floor {:.1} µs",
                fit.parameters[COMPUTE], fit.parameters[BANDWIDTH], fit.parameters[START_US]
            ),
            n_train: fit.n_train,
            errors: FitErrors {
                structured: error,
                curve: over(&|work| roofline::curve_us(work, sample.device)),
                roofline: over(&|work| roofline::roofline_us(work, sample.device)),
                ..FitErrors::of(error)
            },
            network: None,
        });
        let other = counterpart(sample.domain).filter(|_| carries);
        let other = other.map(|other| known.parameters(other, sample.device));
        let carried = other.and_then(|other| carried_quick(&fit, sample, &base, &other));
        self.fits.push(fit);
        self.fits.extend(carried);
        Ok(())
    }
}

/// Fewer rows carry fewer trees.
fn tuning(rows: usize, target: Target<'_>) -> Tuning {
    let full = Tuning::default();
    let hyperparameters = Hyperparameters { trees: full.hyperparameters.trees.min(rows), ..full.hyperparameters };
    Tuning { hyperparameters, networks: if target.is_paper_grid { MlpConfig::paper_grid() } else { full.networks } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retime_core::cost::CostModels;
    use retime_core::cost::device_file::read_fits;
    use retime_core::cost::operators::{GemmSize, gemm_work};
    use retime_core::graph::DType;

    const HEAD: &str = "system,gemm_dtype,m,n,k,latency_ms\n";

    /// A card that computes at 300 TFLOP/s and moves 2 TB/s after 4 µs; `scale` spoils the unit.
    fn table(rows: u64, scale: f64) -> String {
        let row = |i: u64| {
            let (m, n, k) = (64_u64 << (i % 8), 256_u64 << (i / 8 % 5), 512_u64 << (i / 40 % 4));
            let bytes = 2.0 * (m * k + k * n + m * n) as f64;
            let us = 4.0 + (2.0 * (m * n * k) as f64 / 300e6).max(bytes / 2e6);
            format!("Card,bfloat16,{m},{n},{k},{}\n", us / 1e3 * scale)
        };
        HEAD.to_owned() + &(0..rows).map(row).collect::<String>()
    }

    fn calibrated(text: String, is_quick: bool) -> Result<DeviceCalibration, (String, FitError)> {
        let (catalog, models) = (Catalog::builtin().unwrap(), CostModels::builtin().unwrap());
        let target = Target { device: Some("Card"), inherits: Some("A100-80"), is_quick, ..Target::default() };
        calibrate_device(&catalog, models.fits(), &[("m.csv".to_owned(), text)], target)
    }

    #[test]
    fn rows_that_are_mostly_the_rounding_of_a_factor_are_counted() {
        let unused = |more: &str| calibrated(table(12, 1.0) + more, true).unwrap().unused.join("; ");
        assert!(!unused("Card,fp8,256,4096,4096,0.1\n").contains("rounding"));
        // 268 M numbers to round, and next to no product.
        let mostly = unused("Card,fp8,65536,16,4096,0.5\nCard,fp8,256,4096,4096,0.1\n");
        assert!(mostly.contains("1 row of products in 8 bits: most of their time is the rounding"), "{mostly}");
    }

    #[test]
    fn a_device_file_predicts_what_was_measured() {
        for is_quick in [false, true] {
            let found = calibrated(table(if is_quick { 12 } else { 160 }, 1.0), is_quick).unwrap();
            let files = [("card.toml".to_owned(), found.file().unwrap())];
            let catalog = Catalog::with_files(&files).unwrap();
            let models = CostModels::with_devices(&catalog, &files).unwrap();
            let work = gemm_work(GemmSize { batch: 1, m: 2048, n: 2048, k: 2048 }, DType::Bf16, false, 0);
            let estimate = models.estimate(&work, catalog.find("Card").unwrap()).unwrap();
            let wanted = 4.0 + 2.0 * 2048f64.powi(3) / 300e6;
            assert!((estimate.duration.0 as f64 / 1e3 / wanted - 1.0).abs() < 0.25, "{estimate:?} {wanted}");
            assert!(estimate.error > 0.0 && found.report[0].errors.held_out.n > 0);
        }
    }

    #[test]
    fn a_rate_measured_on_single_products_is_that_of_batched_ones() {
        // At a fifth of what an A100 computes in fp32.
        let rows = |at: u64| {
            let size = 256 * (1 + at);
            let us = 6.0 + 2.0 * (size as f64).powi(3) / 4e6;
            format!("Card,{size},{size},{size},{}\n", us / 1e6)
        };
        let text = "device,m,n,k,seconds\n".to_owned() + &(0..12).map(rows).collect::<String>();
        let files = [("card.toml".to_owned(), calibrated(text, true).unwrap().file().unwrap())];
        let catalog = Catalog::with_files(&files).unwrap();
        let models = CostModels::with_devices(&catalog, &files).unwrap();
        let device = catalog.find("Card").unwrap();
        let rate = |batch: u64| {
            let work = gemm_work(GemmSize { batch, m: 2048, n: 2048, k: 2048 }, DType::Fp32, false, 0);
            work.flop.0 / models.estimate(&work, device).unwrap().duration.secs()
        };
        assert!((rate(1) / 4e12 - 1.0).abs() < 0.3, "{}", rate(1));
        assert!((rate(8) / rate(1) - 1.0).abs() < 0.4, "{} for {}", rate(8), rate(1));
    }

    #[test]
    fn the_same_measurements_give_the_same_file() {
        let file = || calibrated(table(160, 1.0), false).unwrap().file().unwrap();
        assert_eq!(file(), file());
    }

    #[test]
    fn sizes_beyond_those_measured_are_flagged() {
        let files = [("card.toml".to_owned(), calibrated(table(160, 1.0), false).unwrap().file().unwrap())];
        let catalog = Catalog::with_files(&files).unwrap();
        let models = CostModels::with_devices(&catalog, &files).unwrap();
        let extrapolated = |m| {
            let work = gemm_work(GemmSize { batch: 1, m, n: 1024, k: 1024 }, DType::Bf16, false, 0);
            models.estimate(&work, catalog.find("Card").unwrap()).unwrap().extrapolated
        };
        assert!(!extrapolated(1024) && extrapolated(1 << 20));
    }

    #[test]
    fn a_unit_that_is_a_thousand_off_is_told_and_hours_are_none() {
        let warnings = |scale: f64| calibrated(table(12, scale), true).unwrap().warnings;
        assert!(warnings(1.0).is_empty() && warnings(20.0).is_empty());
        let said = warnings(1e3).join("");
        assert!(
            said.contains("times as long as A100-80 needs") || said.contains("times as long as Card needs"),
            "{said}"
        );
        let hours = calibrated(table(12, 1.0) + "Card,bfloat16,65536,65536,65536,4e6\n", true).unwrap_err().1;
        assert!(hours.to_string().contains("is the unit right?"), "{hours}");
    }

    #[test]
    fn too_few_rows_beside_those_held_out_say_how_many_there_are_of_both() {
        let unused = calibrated(table(60, 1.0) + "Card,fp8,256,4096,4096,0.1\n", false);
        let said = unused.map_or_else(|(_, error)| error.to_string(), |found| found.unused.join("; "));
        assert!(said.contains("60 usable measurements of gemm16") && said.contains("of them held out"), "{said}");
    }

    #[test]
    fn measurements_that_cannot_be_used_say_why() {
        let error = |text: String| calibrated(text, false).unwrap_err();
        let (file, wrong_unit) = error(table(160, 1e-3));
        assert_eq!(file, "m.csv");
        assert!(
            wrong_unit.to_string().contains("line 2") || wrong_unit.to_string().contains("times shorter"),
            "{wrong_unit}"
        );
        assert!(error(table(1, 1.0)).1.to_string().contains("at least 5"));
        assert!(error(table(3, 1.0).replace("Card,", "Card,x,")).1.to_string().contains("line 2"));
        let (catalog, models) = (Catalog::builtin().unwrap(), CostModels::builtin().unwrap());
        let files = [("m.csv".to_owned(), table(9, 1.0))];
        let unknown = calibrate_device(&catalog, models.fits(), &files, Target::default()).unwrap_err().1;
        assert!(unknown.to_string().contains("`Card`") && unknown.to_string().contains("--inherits"), "{unknown}");
        let files = [("m.csv".to_owned(), table(9, 1.0).replace("Card,", ","))];
        let target = Target { device: Some("Mine"), is_quick: true, ..Target::default() };
        let unnamed = calibrate_device(&catalog, models.fits(), &files, target).unwrap_err().1;
        assert!(unnamed.to_string().contains("name no device"), "{unnamed}");
    }

    #[test]
    fn a_damaged_fit_names_file_line_and_key() {
        let text = calibrated(table(160, 1.0), false).unwrap().file().unwrap();
        let error = |text: &str| read_fits("card.toml", text).unwrap_err().to_string();
        let cut = error(&text.replacen("trees = \"", "trees = \"0", 1));
        assert!(cut.starts_with("card.toml:") && cut.contains("fit.gemm16.trees"), "{cut}");
        assert!(error(&text.replacen("parameters = [", "parameters = [-1.0, ", 1)).contains("fit.gemm16.parameters"));
    }
}
