//! What a library can do in a kernel's place: no work takes longer than another way to the same result.
//!
//! Fits follow tables, which say nothing of sizes between and beyond theirs; these rules hold there, too.

use crate::device::{DeviceProfile, Precision};
use crate::units::Bytes;

use super::domain::Domain;
use super::fits::{ACCESSES, Choice, Fits};
use super::operators::{with_images, with_one_query};
use super::prediction::Estimate;
use super::work::{Shape, Work};

impl Fits {
    /// The times of `works` on `device` with the fit for it, else with the parameters for unseen devices.
    ///
    /// A product that may round its factors takes no longer than one that may not: the library chooses between both kinds of kernel.
    /// Where no table has a product in few bits, it takes no longer, beyond what both models err by, than in more.
    pub fn estimates(&self, domain: Domain, works: &[&Work], device: &DeviceProfile) -> Vec<Estimate> {
        let mut estimates = self.of_domain(domain, works, device);
        match domain {
            Domain::Conv => self.no_slower_than_more_images(&mut estimates, works, device),
            Domain::Attention | Domain::Decode => self.by_faster_attention(domain, &mut estimates, works, device),
            Domain::Norm | Domain::Softmax => self.no_rows_slower_than_wider(domain, &mut estimates, works, device),
            _ if domain.is_product() => {
                self.no_slower_than_more_sums(domain, &mut estimates, works, device);
                self.no_product_slower_than_wider(domain, &mut estimates, works, device);
            }
            _ => {}
        }
        estimates
    }

    fn no_product_slower_than_wider(
        &self,
        domain: Domain,
        estimates: &mut [Estimate],
        works: &[&Work],
        device: &DeviceProfile,
    ) {
        let is_measured = self.of_chip(domain, &device.id).next().is_some();
        for (estimate, &work) in estimates.iter_mut().zip(works) {
            // Corrections by a device's own table may say that 8 bits are slower.
            let is_asked = match domain {
                Domain::Gemm8 => !is_measured || estimate.model != Choice::StructuredTrees.name(),
                _ => domain == Domain::Tf32 || estimate.extrapolated,
            };
            if is_asked {
                *estimate = self.no_slower_than_wider(*estimate, work, device, is_measured);
            }
        }
    }

    /// Lets attention of queries over more keys than theirs be computed by the faster of two kernels: the one that splits keys among
    /// blocks, or the one whose blocks have some queries each. Most tables have the first with one query and the second with all of a
    /// sequence; what a table has between stands. More queries are no faster than one.
    fn by_faster_attention(&self, domain: Domain, estimates: &mut [Estimate], works: &[&Work], device: &DeviceProfile) {
        let between: Vec<(&mut Estimate, &Work)> =
            estimates.iter_mut().zip(works.iter().copied()).filter(|(_, work)| has_more_keys(work)).collect();
        let works: Vec<&Work> = between.iter().map(|(_, work)| *work).collect();
        let single: Vec<Work> = works.iter().map(|work| with_one_query(work)).collect();
        let other = if domain == Domain::Decode { Domain::Attention } else { Domain::Decode };
        let others = self.of_domain(other, &works, device);
        let least = self.of_domain(Domain::Decode, &single.iter().collect::<Vec<_>>(), device);
        let measured = self.of_chip(Domain::Attention, &device.id).find(|fit| fit.has_longer_keys());
        for ((estimate, work), (other, least)) in between.into_iter().zip(others.into_iter().zip(least)) {
            let is_measured = measured.is_some_and(|fit| fit.covers(work));
            let is_other = if is_measured { domain == Domain::Decode } else { other.duration < estimate.duration };
            if is_other {
                *estimate = Estimate { error: estimate.error.max(other.error), extrapolated: !is_measured, ..other };
            }
            estimate.duration = estimate.duration.max(least.duration);
        }
    }

    /// Lets no product of shorter sums than those of the device's tables take longer than with the shortest of theirs, which fills the rest
    /// of each sum with zeros: the same kernel runs.
    fn no_slower_than_more_sums(
        &self,
        domain: Domain,
        estimates: &mut [Estimate],
        works: &[&Work],
        device: &DeviceProfile,
    ) {
        let Some(fit) = self.of_chip(domain, &device.id).next() else { return };
        for (estimate, work) in estimates.iter_mut().zip(works) {
            let Some(larger) = fit.raised(work) else { continue };
            let Some(other) = self.of_domain(domain, &[&larger], device).pop() else { continue };
            if other.duration < estimate.duration {
                *estimate = Estimate { error: estimate.error.max(other.error), extrapolated: true, ..other };
            }
        }
    }

    /// Lets no rows of 16 bits take longer than of 32: both are computed in 32, and no table has the former.
    fn no_rows_slower_than_wider(
        &self,
        domain: Domain,
        estimates: &mut [Estimate],
        works: &[&Work],
        device: &DeviceProfile,
    ) {
        let wider: Vec<Option<Work>> = works.iter().map(|work| in_32_bits(work)).collect();
        let asked: Vec<&Work> = wider.iter().flatten().collect();
        let mut others = self.of_domain(domain, &asked, device).into_iter();
        for (estimate, _) in estimates.iter_mut().zip(wider).filter(|(_, wider)| wider.is_some()) {
            if let Some(other) = others.next().filter(|other| other.duration < estimate.duration) {
                *estimate = Estimate { error: estimate.error.max(other.error), ..other };
            }
        }
    }

    /// Lets no convolution take longer than one of twice, four or eight times the images that tables cover, which the library could
    /// do in its place: what was fitted to few batches rises and falls between them, and at their border.
    fn no_slower_than_more_images(&self, estimates: &mut [Estimate], works: &[&Work], device: &DeviceProfile) {
        for times in MORE_IMAGES {
            let larger: Vec<Work> = works.iter().map(|work| with_images(work, times)).collect();
            let others = self.of_domain(Domain::Conv, &larger.iter().collect::<Vec<_>>(), device);
            for (estimate, other) in estimates.iter_mut().zip(others) {
                if !other.extrapolated && other.duration < estimate.duration {
                    let Estimate { error, extrapolated, .. } = *estimate;
                    *estimate = Estimate { error: error.max(other.error), extrapolated, ..other };
                }
            }
        }
    }

    /// `estimate` of a product, or where that is less what the same product takes in more bits.
    ///
    /// # Arguments
    /// `is_measured`: whether such products were measured on the device, which may contradict the order by as much as both may err; but
    /// no table has those that fetch elements one by one.
    fn no_slower_than_wider(
        &self,
        estimate: Estimate,
        work: &Work,
        device: &DeviceProfile,
        is_measured: bool,
    ) -> Estimate {
        let Some(wider) = wider(work, device) else { return estimate };
        let Some(domain) = Domain::of(&wider) else { return estimate };
        let Some(other) = self.estimates(domain, &[&wider], device).pop() else { return estimate };
        if work.precision == Precision::Tf32 {
            return if other.duration < estimate.duration { other } else { estimate };
        }
        let error = estimate.error.max(other.error);
        let slack = if is_measured && estimate.model != ACCESSES {
            1.0 + f64::from(estimate.error) + f64::from(other.error)
        } else {
            1.0
        };
        let duration = other.duration.scale(slack);
        if duration < estimate.duration { Estimate { duration, error, ..other } } else { estimate }
    }
}

/// How many times as many images a convolution is compared with.
const MORE_IMAGES: [u64; 3] = [2, 4, 8];

/// Whether `work` is of several queries to a sequence over more keys.
fn has_more_keys(work: &Work) -> bool {
    matches!(work.shape, Shape::Attention { queries, keys, backward: false, .. } if queries > 1 && keys > queries)
}

/// The rows of `work`, of elements of 16 bits, in 32; `None` of other work.
fn in_32_bits(work: &Work) -> Option<Work> {
    let Shape::Rows { rows, width } = work.shape else { return None };
    let is_narrow = work.written.0 == rows.saturating_mul(width).saturating_mul(2);
    let twice = |bytes: Bytes| Bytes(bytes.0.saturating_mul(2));
    is_narrow.then(|| Work {
        read: twice(work.read),
        written: twice(work.written),
        precision: Precision::Fp32,
        ..work.clone()
    })
}

/// The product `work` with factors in the next more bits that `device` has units for.
fn wider(work: &Work, device: &DeviceProfile) -> Option<Work> {
    // Products in 8 bits give 16.
    let (precisions, read, written): (&[Precision], u64, u64) = match work.precision {
        Precision::Fp8Tensor | Precision::Int8Tensor => (&[Precision::Bf16Tensor, Precision::Fp16Tensor], 2, 1),
        Precision::Bf16Tensor | Precision::Fp16Tensor => (&[Precision::Tf32, Precision::Fp32], 2, 2),
        Precision::Tf32 => (&[Precision::Fp32], 1, 1),
        _ => return None,
    };
    let precision = *precisions.iter().find(|precision| device.peak.contains_key(precision))?;
    let more = |bytes: Bytes, times: u64| Bytes(bytes.0.saturating_mul(times));
    let (read, written) = (more(work.read, read), more(work.written, written));
    Some(Work { read, written, precision, ..work.clone() })
}
