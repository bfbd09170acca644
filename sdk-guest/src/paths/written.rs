//! Paths in a tool's input.

use std::cell::RefCell;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::GuestPath;
use crate::Error;

thread_local! {
    /// Why a path of the input was refused. A reader of JSON keeps an error's words only, and adds where it stood; the kind
    /// and the sentence as it was made go this way.
    static REFUSED: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Why the latest path was refused, once.
pub(crate) fn refused() -> Option<Error> {
    REFUSED.with(RefCell::take)
}

impl<'de> Deserialize<'de> for GuestPath {
    /// [`GuestPath::granted`] of a string.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl Visitor<'_> for Written {
            type Value = GuestPath;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path")
            }
            fn visit_str<E: de::Error>(self, written: &str) -> Result<GuestPath, E> {
                GuestPath::granted(written).map_err(|error| {
                    let told = E::custom(&error.message);
                    REFUSED.with(|refused| refused.replace(Some(error)));
                    told
                })
            }
        }
        deserializer.deserialize_str(Written)
    }
}
