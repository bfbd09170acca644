//! What one plugin's children reach of the folders that are the host's, or that not every plugin is granted: the working folder, and what
//! the host holds.

use std::path::{Path, PathBuf};

use super::ground::{Plan, is_renamable};

/// A folder that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxFolder {
    /// Absolute, without links.
    pub path: PathBuf,
    /// Otherwise what lies in it is only read.
    pub writable: bool,
}

/// One thing that is laid over the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    /// Nothing is there.
    Cover(PathBuf),
    /// What lies there, although something outside of it is covered or only read.
    Show(SandboxFolder),
}

impl Layer {
    pub fn path(&self) -> &Path {
        match self {
            Self::Cover(path) => path,
            Self::Show(folder) => &folder.path,
        }
    }
}

/// What lies over the disk, outer ones first.
#[derive(Debug)]
pub(super) struct View<'p> {
    pub plan: &'p Plan,
    pub layers: Vec<Layer>,
    /// What leads to a layer and could be renamed: then something else could be put in its place. Outer ones first.
    pub pins: Vec<PathBuf>,
}

impl<'p> View<'p> {
    /// For a child of somebody who was granted `folders`; none: the working folder is reached, and nothing that is held.
    pub fn of(plan: &'p Plan, folders: Option<&[SandboxFolder]>) -> Self {
        let mut layers: Vec<Layer> = plan.covers.iter().cloned().map(Layer::Cover).collect();
        if let Some(folders) = folders {
            for work in &plan.work {
                let granted: Vec<_> = folders.iter().filter(|folder| work.starts_with(&folder.path)).collect();
                let writable = granted.iter().any(|folder| folder.writable);
                layers.extend(match granted.is_empty() {
                    true => Some(Layer::Cover(work.clone())),
                    // By its other names too: what is granted names one of them.
                    false if !writable => Some(Layer::Show(SandboxFolder { path: work.clone(), writable })),
                    false => None,
                });
            }
            for folder in folders {
                let is_shown =
                    layers.iter().any(|layer| matches!(layer, Layer::Show(shown) if shown.path == folder.path));
                if !is_shown && layers.iter().any(|layer| folder.path.starts_with(layer.path())) {
                    // What is reserved is never granted, so this can only be what is held.
                    layers.retain(|layer| layer.path() != folder.path);
                    layers.push(Layer::Show(folder.clone()));
                }
            }
        }
        for file in &plan.linked {
            // Where it is not there anyway, it is not to be.
            let within = layers
                .iter()
                .filter(|layer| file.starts_with(layer.path()))
                .max_by_key(|layer| layer.path().as_os_str().len());
            if !matches!(within, Some(Layer::Cover(_))) && !plan.is_elsewhere(file) {
                layers.retain(|layer| layer.path() != file);
                layers.push(Layer::Show(SandboxFolder { path: file.clone(), writable: false }));
            }
        }
        layers.sort_by(|one, other| one.path().cmp(other.path()));
        layers.dedup();
        let ways =
            layers.iter().flat_map(|layer| layer.path().ancestors().skip(1)).filter(|way| way.parent().is_some());
        let within = |way: &Path| layers.iter().any(|layer| way.starts_with(layer.path()));
        let mut pins: Vec<PathBuf> = ways
            .filter(|way| !within(way))
            .map(Path::to_path_buf)
            .chain(plan.in_the_way.iter().cloned())
            .filter(|way| !plan.is_elsewhere(way) && is_renamable(way))
            .collect();
        pins.sort();
        pins.dedup();
        Self { plan, layers, pins }
    }

    /// The innermost layer that it lies in.
    pub fn layer(&self, path: &Path) -> Option<&Layer> {
        self.layers.iter().rev().find(|layer| path.starts_with(layer.path()))
    }

    /// Whether a child does not see what lies there outside.
    pub fn hides(&self, path: &Path) -> bool {
        match self.layer(path) {
            Some(Layer::Cover(_)) => true,
            Some(Layer::Show(_)) => false,
            None => self.plan.is_elsewhere(path),
        }
    }

    /// Where a child starts that was to start in `folder`.
    pub fn start_in(&self, folder: &Path) -> PathBuf {
        let real = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        if self.hides(&real) { self.plan.elsewhere() } else { folder.to_owned() }
    }
}
