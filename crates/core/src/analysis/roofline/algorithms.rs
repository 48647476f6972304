//! Seven distributed algorithms as points of the communication roofline [Cardwell 2019 table 2.4].
//!
//! Logarithms are to base 2; a double has 8 bytes. Where the table counts cache misses of `B` elements, they are taken as
//! misses of 64 bytes here, so that all intensities are per byte.

/// The algorithms of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistributedAlgorithm {
    /// Dense matrix–matrix product by SUMMA.
    Summa,
    /// Dense matrix–vector product.
    Dgemv,
    /// Dot product.
    Ddot,
    /// Fourier transform of a vector.
    Fft,
    /// Five-point stencil in two dimensions.
    Stencil,
    /// Borůvka's minimum spanning tree.
    SpanningTree,
    /// Dijkstra's shortest paths.
    Dijkstra,
}

/// Sizes of a cache that the intensities of three of the algorithms depend on, in doubles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineCache {
    /// Elements of a cache line.
    pub line: f64,
    /// Elements of the cache.
    pub size: f64,
}

impl MachineCache {
    /// 64-byte lines and the 16 KiB that the thesis computes with.
    pub const THESIS: Self = Self { line: 8.0, size: 2048.0 };
}

/// FLOP per byte of memory and of network traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intensities {
    /// FLOP per byte of memory traffic.
    pub memory: f64,
    /// FLOP per byte of network traffic; infinite on one process.
    pub network: f64,
}

/// Bytes of a double.
const DOUBLE: f64 = 8.0;

/// Work and traffic of one process: FLOP, memory bytes, network bytes.
struct Counts(f64, f64, f64);

impl DistributedAlgorithm {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 7] =
        [Self::Summa, Self::Dgemv, Self::Ddot, Self::Fft, Self::Stencil, Self::SpanningTree, Self::Dijkstra];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Summa => "SUMMA",
            Self::Dgemv => "DGEMV",
            Self::Ddot => "DDOT",
            Self::Fft => "FFT",
            Self::Stencil => "stencil",
            Self::SpanningTree => "MST",
            Self::Dijkstra => "Dijkstra",
        }
    }

    /// The one of that name, whichever letters are capitals.
    ///
    /// # Errors
    /// There is none; the message lists those there are.
    pub fn find(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let known = Self::ALL.map(|algorithm| algorithm.name().to_lowercase()).join(", ");
            format!("no algorithm `{name}`: {known}")
        })
    }

    /// Processes that the thesis ran it on: a square of them for SUMMA.
    pub fn processes(self) -> f64 {
        if self == Self::Summa { 121.0 } else { 128.0 }
    }

    /// The sizes that the thesis ran on its largest machine, each twice the one before [Cardwell 2019 Table 2.5].
    pub fn sizes(self) -> Vec<f64> {
        let (least, most) = match self {
            Self::Summa => (242.0, 61_952.0),
            Self::Dgemv => (256.0, 524_288.0),
            Self::Ddot => (256.0, 1_073_741_824.0),
            Self::Fft => (256.0, 536_870_912.0),
            Self::Stencil => (256.0, 131_072.0),
            Self::SpanningTree => (65_536.0, 67_108_864.0),
            Self::Dijkstra => (256.0, 32_768.0),
        };
        std::iter::successors(Some(least), |size| Some(2.0 * size)).take_while(|size| *size <= most).collect()
    }

    /// Its intensities on `processes` processes.
    ///
    /// # Arguments
    /// `size`: rows of the matrix, elements of the vector, side of the grid, or vertices of a graph with
    /// `edges_per_vertex` edges each; at least 4.
    pub fn intensities(self, size: f64, processes: f64, edges_per_vertex: f64, cache: MachineCache) -> Intensities {
        let (n, p) = (size.max(4.0), processes.max(1.0));
        let Counts(flop, memory, network) = match self {
            Self::Summa => summa(n, p, cache),
            Self::Dgemv => {
                let flop = (2.0 * n * n + 2.0 * n) / p;
                Counts(flop, (8.0 * n * n + 24.0 * n) / p, DOUBLE * (n / p) * (p - 1.0))
            }
            Self::Ddot => Counts(2.0 * (n / p) - 1.0, 16.0 * (n / p) + 8.0, DOUBLE * p.log2()),
            Self::Fft => Counts(5.0 * n * n.log2() / p, 48.0 * n / p, 32.0 * (n / p) * p.log2()),
            Self::Stencil => {
                let cells = ((n - 2.0) / p) * (n - 2.0);
                Counts(4.0 * cells, 56.0 * cells, 32.0 * n)
            }
            Self::SpanningTree => spanning_tree(n, n * edges_per_vertex, p, cache),
            Self::Dijkstra => dijkstra(n, n * edges_per_vertex, p, cache),
        };
        let network = if p > 1.0 { flop / network } else { f64::INFINITY };
        Intensities { memory: flop / memory, network }
    }
}

/// Cache-oblivious product: `1 + N²/B + N³/(B√M)` misses; two broadcasts over rows and columns of the process grid.
fn summa(n: f64, p: f64, cache: MachineCache) -> Counts {
    let misses = 1.0 + n * n / cache.line + n.powi(3) / (cache.line * cache.size.sqrt());
    let side = p.sqrt();
    let network = 2.0 * side * (DOUBLE * (n / side).powi(2) * side.log2());
    Counts((2.0 * n.powi(3) + 2.0 * n * n) / p, DOUBLE * cache.line * misses / p, network)
}

/// `log V` rounds, each with a cache-oblivious sort of the edges: `1 + (E/B)(1 + log_M E)` misses.
fn spanning_tree(v: f64, e: f64, p: f64, cache: MachineCache) -> Counts {
    let rounds = v.log2();
    let sort = 1.0 + e / cache.line * (1.0 + e.log2() / cache.size.log2());
    let network = 12.0 * v * (rounds / 2.0) * p.log2() + 12.0 * v * rounds;
    Counts(e * rounds / p, DOUBLE * cache.line * sort * rounds / p, network)
}

/// `V + (E/B)·log(E/B)` misses of a cache-oblivious priority queue (the table's `n` and `M` are vertices and edges).
fn dijkstra(v: f64, e: f64, p: f64, cache: MachineCache) -> Counts {
    let blocks = e / cache.line;
    let misses = v + blocks * blocks.max(2.0).log2();
    let network = v * (16.0 * p.log2()) + 4.0 * (v / p) * p.log2();
    Counts((e + v * v.log2()) / p, DOUBLE * cache.line * misses / p, network)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(algorithm: DistributedAlgorithm, size: f64, processes: f64) -> (f64, f64) {
        let found = algorithm.intensities(size, processes, 16.0, MachineCache::THESIS);
        (found.memory, found.network)
    }

    #[test]
    fn table_2_4_worked_by_hand() {
        let close = |(a, b): (f64, f64), (x, y): (f64, f64)| (a - x).abs() < 1e-5 && (b - y).abs() < 1e-5;
        assert!(close(of(DistributedAlgorithm::Dgemv, 1000.0, 10.0), (2_002_000.0 / 8_024_000.0, 200_200.0 / 7_200.0)));
        assert!(close(of(DistributedAlgorithm::Ddot, 1280.0, 128.0), (19.0 / 168.0, 19.0 / 56.0)));
        assert!(close(of(DistributedAlgorithm::Fft, 1_048_576.0, 128.0), (100.0 / 48.0, 100.0 / 224.0)));
        assert!(close(of(DistributedAlgorithm::Stencil, 1026.0, 128.0), (4.0 / 56.0, 32_768.0 / 32_832.0)));
    }

    #[test]
    fn one_process_needs_no_network_and_nothing_is_wild() {
        for algorithm in DistributedAlgorithm::ALL {
            assert!(of(algorithm, 4096.0, 1.0).1.is_infinite());
            let (memory, network) = of(algorithm, 4.0, 121.0);
            assert!(memory.is_finite() && memory > 0.0 || algorithm == DistributedAlgorithm::Ddot, "{memory}");
            assert!(network.is_finite(), "{network}");
        }
    }
}
