//! The derive `Input` of `pith-sdk`, whose documentation it is part of.

mod attributes;
mod expand;
mod names;

use proc_macro::TokenStream;

/// A tool's input from a struct: the schema that the model is shown says what serde reads. The trait of
/// the same name says what it makes of fields and attributes.
#[proc_macro_derive(Input, attributes(input))]
pub fn input(item: TokenStream) -> TokenStream {
    syn::parse(item).and_then(|item| expand::expand(&item)).unwrap_or_else(|error| error.to_compile_error()).into()
}
