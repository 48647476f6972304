//! Machines, algorithms and sizes of the communication roofline, as they are written.

use std::str::FromStr;

use clap::ValueEnum;

/// A machine: known, or made up by three figures.
#[derive(Clone, Debug, PartialEq)]
pub enum System {
    /// A device by its name.
    Named(String),
    /// Roofs that are given.
    Made {
        /// What it is called.
        label: String,
        /// GFLOP/s, and GB/s of memory and of the network.
        figures: [f64; 3],
    },
}

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (label, figures) = text.split_once('=').unwrap_or((text, text));
        if !figures.contains(',') {
            return Ok(Self::Named(text.to_owned()));
        }
        let number = |part: &str| part.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
        let figures: Option<Vec<f64>> = figures.split(',').map(number).collect();
        let Some(&figures) = figures.as_deref().and_then(|figures| <&[f64; 3]>::try_from(figures).ok()) else {
            return Err("expected GFLOPS,MEMORY,NETWORK: three numbers above 0, bandwidths in GB/s".to_owned());
        };
        Ok(Self::Made { label: label.to_owned(), figures })
    }
}

/// A distributed algorithm by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AlgorithmName {
    /// Dense matrix–matrix product.
    Summa,
    /// Dense matrix–vector product.
    Dgemv,
    /// Dot product.
    Ddot,
    /// Fourier transform.
    Fft,
    /// Five-point stencil.
    Stencil,
    /// Minimum spanning tree.
    Mst,
    /// Shortest paths.
    Dijkstra,
}

/// Problem sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes(pub Vec<f64>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.trim().parse::<f64>().ok().filter(|value| (4.0..=1e15).contains(value));
        let wrong = || "expected a size from 4, or a range of doublings such as 256..1048576".to_owned();
        let Some((least, most)) = text.split_once("..") else { return Ok(Self(vec![number(text).ok_or_else(wrong)?])) };
        let (least, most) = number(least).zip(number(most)).filter(|(least, most)| least <= most).ok_or_else(wrong)?;
        Ok(Self(std::iter::successors(Some(least), |size| Some(2.0 * size)).take_while(|size| *size <= most).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_names_or_three_figures() {
        assert_eq!("Karst".parse(), Ok(System::Named("Karst".into())));
        let made: System = "mine=22,13.9,1.2".parse().unwrap();
        assert_eq!(made, System::Made { label: "mine".into(), figures: [22.0, 13.9, 1.2] });
        assert!("22,13".parse::<System>().is_err() && "a=1,0,1".parse::<System>().is_err());
    }

    #[test]
    fn sizes_double() {
        assert_eq!("256..1100".parse(), Ok(Sizes(vec![256.0, 512.0, 1024.0])));
        assert!("9..4".parse::<Sizes>().is_err() && "nan".parse::<Sizes>().is_err());
    }
}
