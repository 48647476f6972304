//! What edits draw on besides the graph: devices, cost models, host overheads.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::cost::copies::copies_of;
use crate::cost::copies::copy_curves;
use crate::cost::overhead::OverheadError;
use crate::cost::{CostModels, Overheads};
use crate::device::{Catalog, CatalogError, DeviceProfile};
use crate::graph::{ExecutionGraph, RankPart};
use crate::units::Bytes;

use super::batch::BatchScaling;
use super::host::HostModel;

/// Catalog, models and the devices on which the graph was traced. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Context {
    /// Known devices.
    pub catalog: Arc<Catalog>,
    /// Cost models.
    pub models: Arc<CostModels>,
    /// Host overheads by operator, for work that was never run.
    pub overheads: Arc<Overheads>,
    /// Further databases of host overheads, by file.
    pub databases: Databases,
    /// The device of each rank, in the order of the graph's ranks.
    pub devices: Vec<RankDevice>,
    /// The host as the trace shows it, where operators computed on it.
    pub host: Option<HostModel>,
    /// Whether the graph's device work was put there by `place-on`, from an execution trace or a CPU run.
    pub is_placed: bool,
    /// Whether the graph's times were predicted, never measured: what changes is predicted anew, since a prediction anchors nothing.
    pub is_predicted: bool,
    /// What a second trace of the model, at another batch size, tells.
    pub batch_scaling: Option<Arc<BatchScaling>>,
    /// Memory that this process may hold; `None` for as much as there is.
    pub max_memory: Option<Bytes>,
}

/// What reads a database of host overheads, or says in one line why not.
type ReadDatabase = dyn Fn(&str) -> Result<Arc<Overheads>, String> + Send + Sync;

/// Where databases of host overheads come from; reading files is for those who supply it.
#[derive(Clone)]
pub struct Databases(Arc<ReadDatabase>);

impl Databases {
    /// A source that `read`s the database of a file's name.
    pub fn new(read: impl Fn(&str) -> Result<Arc<Overheads>, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The database in `file`.
    ///
    /// # Errors
    /// Why it cannot be used, in one line.
    pub fn read(&self, file: &str) -> Result<Arc<Overheads>, String> {
        (self.0)(file)
    }
}

impl Default for Databases {
    fn default() -> Self {
        Self::new(|file| Err(format!("{file}: no file is read here")))
    }
}

impl fmt::Debug for Databases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Databases")
    }
}

/// The device that a rank was traced on.
#[derive(Clone, Debug, PartialEq)]
pub struct RankDevice {
    /// Its figures.
    pub profile: Arc<DeviceProfile>,
    /// Whether the catalog knows the recorded device; otherwise the figures are those of nothing, or of a common host.
    pub recognised: bool,
}

/// A built-in file is damaged.
#[derive(Debug, Error)]
pub enum ContextError {
    /// A device or model file.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The overhead database.
    #[error(transparent)]
    Overheads(#[from] OverheadError),
}

/// Lends a GPU that the catalog does not know figures that nothing is predicted with.
const COMMON_GPU: &str = "A100-40";
/// Stands for the host of a trace without device work.
const COMMON_HOST: &str = "CPU";

impl Context {
    /// A context for `graph`.
    pub fn new(
        catalog: Arc<Catalog>,
        models: Arc<CostModels>,
        overheads: Arc<Overheads>,
        graph: &ExecutionGraph,
    ) -> Self {
        Self::with_device(catalog, models, overheads, graph, None)
    }

    /// As [`new`](Self::new), where `named` is the device of ranks whose trace does not name one that the catalog knows.
    pub fn with_device(
        catalog: Arc<Catalog>,
        models: Arc<CostModels>,
        overheads: Arc<Overheads>,
        graph: &ExecutionGraph,
        named: Option<&Arc<DeviceProfile>>,
    ) -> Self {
        let used = graph.ranks_with_device_work();
        let device = |(part, used): (&RankPart, &bool)| {
            let own = device_of(part, &catalog, *used)?;
            let named = named.filter(|_| *used && !own.recognised);
            Some(named.map_or(own, |named| RankDevice { profile: Arc::clone(named), recognised: true }))
        };
        let devices: Vec<RankDevice> = graph.ranks.iter().zip(&used).filter_map(device).collect();
        let profiles: Vec<&DeviceProfile> = devices.iter().map(|device| &*device.profile).collect();
        let copies = copies_of(graph, &profiles);
        let curves = copy_curves(copies.iter().map(|(work, device, us)| (work, *device, *us)));
        let models = if curves.is_empty() { models } else { Arc::new(models.with_copies(curves, &profiles)) };
        let host = HostModel::fit(graph);
        let databases = Databases::default();
        Self {
            catalog,
            models,
            overheads,
            databases,
            devices,
            host,
            is_placed: false,
            is_predicted: false,
            batch_scaling: None,
            max_memory: None,
        }
    }

    /// Why no device work of `graph` can move to another device: which one it ran on is not known. `None` where it is.
    pub fn unknown_device(&self, graph: &ExecutionGraph) -> Option<String> {
        if let Some((device, other)) =
            graph.ranks.iter().find_map(|part| part.device.as_ref().zip(part.unlike.as_ref()))
        {
            let (one, other) = (&device.name, &other.name);
            return Some(format!(
                "a process ran on {one} and on {other}: which of its work is of which is not told apart"
            ));
        }
        let used = graph.ranks_with_device_work();
        let ranks = graph.ranks.iter().zip(&self.devices).zip(&used);
        let ((part, _), _) = ranks.into_iter().find(|((_, device), used)| **used && !device.recognised)?;
        Some(match &part.device {
            Some(recorded) => {
                format!("the traced device, {}, is not known: `--device NAME` says what it is like", recorded.name)
            }
            None => "the trace does not say which device it ran on: `--device NAME` does".to_owned(),
        })
    }

    /// That `named` is not the device of a rank, since its trace names another that is known; `None` where no trace does.
    pub fn ignored_device(&self, graph: &ExecutionGraph, named: &DeviceProfile) -> Option<String> {
        let used = graph.ranks_with_device_work();
        let mut ranks = self.devices.iter().zip(&used).filter(|(_, used)| **used).map(|(device, _)| &device.profile);
        let own = ranks.find(|own| own.id != named.id)?;
        Some(format!(
            "the trace names its device, {}, which stays: `--device {}` is for traces that do not",
            own.id, named.id
        ))
    }

    /// Which device a traced one of unknown name is taken for because its recorded figures are those of that; `None` where all names are
    /// known.
    pub fn taken_by_figures(&self, graph: &ExecutionGraph) -> Option<String> {
        let ranks = graph.ranks.iter().zip(&self.devices).filter(|(_, device)| device.recognised);
        let mut named = ranks.filter_map(|(part, device)| Some((&part.device.as_ref()?.name, &device.profile)));
        let (name, profile) = named.find(|(name, _)| self.catalog.recognise(name).is_none())?;
        Some(format!(
            "the traced device, {name}, is not known by name: its multiprocessors and memory are those of {}, which it is taken for",
            profile.name
        ))
    }

    /// Of which device a rank had a part only, as its trace records, and what of its figures is divided; `None` where none had.
    pub fn parts_of_devices(&self, graph: &ExecutionGraph) -> Option<String> {
        let ranks = graph.ranks.iter().zip(&self.devices).filter(|(_, device)| device.recognised);
        let named = ranks.filter_map(|(part, device)| Some((part.device.as_ref()?, &device.profile)));
        let (recorded, profile) = named.into_iter().find(|(_, profile)| self.catalog.named(&profile.id).is_err())?;
        let whole = profile.lineage.first()?;
        let is_divided = self.catalog.named(whole).is_ok_and(|whole| profile.sm_count < whole.sm_count);
        let (count, memory) = (recorded.sm_count, recorded.memory);
        Some(match count {
            0 => format!(
                "the trace records {memory} of memory and no multiprocessors: a part of {whole}; how fast it is, is not known, and rates are \
                 those of the whole"
            ),
            _ if is_divided => {
                format!(
                    "the trace records {count} multiprocessors and {memory} of memory: a part of {whole}, whose figures are divided so"
                )
            }
            _ => format!(
                "the trace records {count} multiprocessors and {memory} of memory: all of {whole} but of its memory a part; rates are those \
                 of the whole"
            ),
        })
    }

    /// That ranks ran on devices which are unlike, with how many ranks each had; `None` where all ran on one kind.
    pub fn unlike_ranks(&self, graph: &ExecutionGraph) -> Option<String> {
        let mut kinds: Vec<(&str, Vec<u32>)> = Vec::new();
        for ((part, device), _) in
            graph.ranks.iter().zip(&self.devices).zip(graph.ranks_with_device_work()).filter(|it| it.1)
        {
            match kinds.iter_mut().find(|(id, _)| *id == device.profile.id) {
                Some((_, ranks)) => ranks.push(part.rank.0),
                None => kinds.push((&device.profile.id, vec![part.rank.0])),
            }
        }
        let ran = |(id, ranks): &(&str, Vec<u32>)| match ranks[..] {
            [only] => format!("rank {only} on {id}"),
            [first, ..] => format!("rank {first} and {} more on {id}", ranks.len() - 1),
            [] => String::new(),
        };
        (kinds.len() > 1).then(|| {
            format!("the ranks ran on unlike devices: {}", kinds.iter().map(ran).collect::<Vec<_>>().join(", "))
        })
    }

    /// A context for `graph` with the devices, models and overheads that come with the program.
    ///
    /// # Errors
    /// A built-in file is damaged.
    pub fn builtin(graph: &ExecutionGraph) -> Result<Self, ContextError> {
        let catalog = Arc::new(Catalog::builtin()?);
        let models = Arc::new(CostModels::builtin()?);
        Ok(Self::new(catalog, models, Arc::new(Overheads::builtin()?), graph))
    }
}

/// The profile of the rank's recorded device, or of what stands for it.
///
/// # Arguments
/// `used`: whether any work of the rank ran on a device.
fn device_of(part: &RankPart, catalog: &Catalog, used: bool) -> Option<RankDevice> {
    let recorded = part.device.as_ref();
    let by_name = recorded.and_then(|device| catalog.recognise(&device.name));
    let known = by_name.or_else(|| recorded.and_then(|device| catalog.alike(device.sm_count, device.memory)));
    if let Some(profile) = known {
        let part = recorded.and_then(|device| profile.part(&device.name, device.sm_count, device.memory));
        return Some(RankDevice { profile: part.map_or_else(|| Arc::clone(profile), Arc::new), recognised: true });
    }
    let common = |name| catalog.find(name).ok().or_else(|| catalog.iter().next());
    let profile = if used || recorded.is_some() {
        let (name, memory) = recorded.map_or(("", Bytes(0)), |device| (&*device.name, device.memory));
        Arc::new(DeviceProfile::unknown(name, memory, common(COMMON_GPU)?))
    } else {
        Arc::clone(common(COMMON_HOST)?)
    };
    Some(RankDevice { profile, recognised: false })
}
