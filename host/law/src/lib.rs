//! Law: capabilities and their bounds, grants, folders that nobody is given. Pure functions over data: no IO, no clock, no environment.
//!
//! A component's type says what it asks for (`Request`); the user's grants say what it may have (`Capability`); `missing` compares the
//! two. Each step can only narrow.

mod capability;
mod folder;
mod interface;
mod name;
mod request;

pub use capability::{
    Access, Authority, BoundLaw, Capability, CapabilityError, Export, FilesBound, Folder, Grant, GrantError,
    ProcessBound, parse_grant,
};
pub use folder::{FolderRefusal, SYSTEM_FOLDERS, check_folder, normalise, overlaps};
pub use interface::{INTERFACES, Interface, Side, interface};
pub use name::{fold_plugin_name, fold_tool_name, is_tool_name};
pub use request::{ImportKind, Request, export_request, import_kind, missing};
