//! Kernels of convolutions by products of spectra: tiles of the tensors are transformed, multiplied as matrices of complex
//! numbers at each point, and transformed back [names and order as cuDNN 9 launches them on H100].

use crate::units::{Bytes, Flop, elements};

use super::kernel_name::is_spectrum;
use super::operators::movement_work;
use super::parts::Part;
use super::work::{Family, Shape, Work, element_bytes};

/// A convolution cut into tiles, in elements.
struct Tiled {
    /// Tiles of all images.
    tiles: u64,
    /// Points of the spectrum of a real tile.
    points: u64,
    channels_in: u64,
    channels_out: u64,
    /// Bytes of a number.
    element: u64,
}

impl Tiled {
    /// `whole` in tiles of `side`; `None` of what is no convolution.
    fn of(whole: &Work, side: u64) -> Option<Self> {
        let &Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, .. } = &whole.shape else {
            return None;
        };
        let along = |outputs: u64, taps: u64| outputs.div_ceil((side + 1).saturating_sub(taps).max(1));
        let tiles = elements(&[batch, along(out_h, r), along(out_w, s)]);
        Some(Self { tiles, points: side * (side / 2 + 1), channels_in, channels_out, element: element_bytes(whole) })
    }

    /// Bytes of `count` spectra: two numbers a point.
    fn spectra(&self, count: u64) -> u64 {
        elements(&[count, self.points, 2, self.element])
    }
}

/// Usual side of a tile, where a product's name has none.
const SIDE: u64 = 32;

/// The side of tiles that `name` says.
fn side(name: &str) -> u64 {
    if name.contains("16x16") { SIDE / 2 } else { SIDE }
}

/// The work of kernel `name`, which is `part` of its operator's of that name, of the convolution `whole`; `None` where it takes no part in
/// a product of spectra.
pub(super) fn work(whole: &Work, name: &str, part: Part, backward: bool) -> Option<Work> {
    if name.contains("_cf32cf32_") {
        return Some(product(whole, &Tiled::of(whole, SIDE)?, part));
    }
    if !name.contains("fft2d_") {
        return None;
    }
    let tiled = Tiled::of(whole, side(name))?;
    let &Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, .. } = &whole.shape else { return None };
    let bytes = |dims: &[u64]| elements(dims).saturating_mul(tiled.element);
    // The gradient of the input is a convolution of the output's.
    let (from, to) = if backward { (channels_out, channels_in) } else { (channels_in, channels_out) };
    let filters = (bytes(&[channels_in, channels_out, r, s]), tiled.spectra(channels_in.saturating_mul(channels_out)));
    let images =
        |channels| (bytes(&[batch, channels, out_h, out_w]), tiled.spectra(tiled.tiles.saturating_mul(channels)));
    let share = |(read, written): (u64, u64), parts: u32| {
        let parts = u64::from(parts.max(1));
        movement_work(Family::Movement, read / parts, written / parts)
    };
    if !is_spectrum(name) {
        let (result, spectra) = images(to);
        return Some(share((spectra, result), part.of));
    }
    // Kernels for filters have names of their own, or come first.
    let is_told = name.contains(", 1u,") || name.contains(", 0u,");
    let of_filters = if is_told { name.contains(", 1u,") } else { part.of > 1 && part.at == 0 };
    let others = if is_told { part.of } else { part.of - u32::from(part.of > 1) };
    Some(if of_filters { share(filters, 1) } else { share(images(from), others) })
}

/// A product of matrices of complex numbers at each point: as one of real numbers with twice the columns and inner dimension.
fn product(whole: &Work, tiled: &Tiled, part: Part) -> Work {
    let (n, k) = (tiled.channels_out.saturating_mul(2), tiled.channels_in.saturating_mul(2));
    let m = (tiled.tiles / u64::from(part.of.max(1))).max(1);
    let bytes = |count: u64| tiled.spectra(count);
    Work {
        family: Family::Gemm,
        flop: Flop(2.0 * tiled.points as f64 * m as f64 * n as f64 * k as f64),
        read: Bytes(
            bytes(elements(&[m, tiled.channels_in])) + bytes(elements(&[tiled.channels_in, tiled.channels_out])),
        ),
        written: Bytes(bytes(elements(&[m, tiled.channels_out]))),
        precision: whole.precision,
        shape: Shape::Gemm { batch: tiled.points, m, n, k },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Precision;

    fn conv() -> Work {
        Work {
            family: Family::Conv,
            flop: Flop(0.0),
            read: Bytes(0),
            written: Bytes(0),
            precision: Precision::Fp32,
            shape: Shape::Conv {
                batch: 32,
                channels_in: 256,
                channels_out: 128,
                algorithm: None,
                out_h: 14,
                out_w: 14,
                r: 3,
                s: 3,
                stride: 1,
                groups: 1,
            },
        }
    }

    fn of(name: &str, at: u32, of: u32) -> Work {
        work(&conv(), name, Part { at, of, beside: false }, false).unwrap()
    }

    /// A tile of 16 × 16 holds all 14 × 14 results; its spectrum has 16 · 9 points of two numbers.
    const SPECTRUM: u64 = 16 * 9 * 2 * 4;

    #[test]
    fn spectra_are_of_filters_first_then_of_images() {
        let name = "void fft2d_r2c_16x16<float>(float2*, float const*)";
        let (filters, images) = (of(name, 0, 2), of(name, 1, 2));
        assert_eq!((filters.read.0, filters.written.0), (256 * 128 * 9 * 4, 256 * 128 * SPECTRUM));
        assert_eq!((images.read.0, images.written.0), (32 * 256 * 196 * 4, 32 * 256 * SPECTRUM));
        let back = of("void fft2d_c2r_16x16<float, false>(float*, float2*)", 0, 1);
        assert_eq!((back.read.0, back.written.0), (32 * 128 * SPECTRUM, 32 * 128 * 196 * 4));
        assert!([filters, images, back].iter().all(|work| work.flop.0 == 0.0));
    }

    #[test]
    fn products_of_spectra_share_the_images() {
        let name = "sm80_xmma_gemm_cf32cf32_f32f32_cf32_tn_n_tilesize32x64x8";
        let (whole, quarter) = (of(name, 0, 1), of(name, 0, 4));
        assert_eq!(whole.shape, Shape::Gemm { batch: 32 * 17, m: 32, n: 256, k: 512 });
        assert!((whole.flop.0 / quarter.flop.0 - 4.0).abs() < 1e-9);
    }

    #[test]
    fn other_kernels_take_no_part() {
        assert_eq!(work(&conv(), "implicit_convolve_sgemm", Part::default(), false), None);
    }
}
