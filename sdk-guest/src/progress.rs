//! A call's partial output while it runs. The newest replaces the one before.

use crate::Content;
pub use crate::authorities::progress::update;

/// Shows this text as the output so far.
pub fn text(text: &str) {
    update(&[Content::Text(text.to_owned())], None);
}
