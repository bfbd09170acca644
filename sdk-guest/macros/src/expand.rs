//! What the derive writes.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DataEnum, DeriveInput, Error, Fields, FieldsNamed, GenericArgument, PathArguments, Result, Type};

use crate::attributes::{self, Kind, Serde, quoted};

/// The implementations for a struct or an enum.
pub fn expand(item: &DeriveInput) -> Result<TokenStream> {
    if let Some(parameter) = item.generics.params.first() {
        return Err(Error::new(
            parameter.span(),
            "`#[derive(Input)]` is for types without parameters: an input owns its data",
        ));
    }
    let serde = attributes::serde(&item.attrs)?;
    match &item.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => of_struct(item, &serde, fields),
            Fields::Unit | Fields::Unnamed(_) => Err(Error::new(
                item.ident.span(),
                "an input is a JSON object: give this struct named fields, or `{}` for none",
            )),
        },
        Data::Enum(data) => of_enum(item, &serde, data),
        Data::Union(_) => {
            Err(Error::new(item.ident.span(), "an input is a struct with named fields, or an enum of names in one"))
        }
    }
}

fn of_struct(item: &DeriveInput, serde: &Serde, fields: &FieldsNamed) -> Result<TokenStream> {
    let name = &item.ident;
    let mut members = Vec::new();
    for field in &fields.named {
        let own = attributes::serde(&field.attrs)?;
        if own.skip {
            continue;
        }
        let Some(ident) = &field.ident else { continue };
        let told = attributes::field(&field.attrs)?;
        check_bounds(&told.bounds, &field.ty)?;
        let plain = unraw(ident);
        let key =
            own.rename.unwrap_or_else(|| serde.rename_all.map_or_else(|| plain.clone(), |style| style.field(&plain)));
        let can_be_absent = own.has_default || serde.has_default;
        let has_default = told.keywords.iter().any(|(keyword, _)| *keyword == "default");
        if has_default && !can_be_absent && !is_option(&field.ty) {
            return Err(Error::new(
                ident.span(),
                format!(
                    "`{plain}` tells the model a default that serde does not have: add `#[serde(default = \"...\")]`, or make it an Option"
                ),
            ));
        }
        let description = &told.description;
        let keywords = told.keywords.iter().map(|(keyword, json)| quote!((#keyword, #json)));
        let ty = &field.ty;
        let shape = match &told.schema {
            Some(members) => quote!(::pith_sdk::Property::shaped(#members, &[])),
            None => quote!(<#ty as ::pith_sdk::Field>::shape(nesting + 1)),
        };
        // Where the schema is given, the type need not be a `Field`.
        let is_optional = match (&told.schema, can_be_absent) {
            (_, true) => quote!(true),
            (None, false) => quote!(<#ty as ::pith_sdk::Field>::IS_OPTIONAL),
            (Some(_), false) => {
                if is_option(ty) {
                    quote!(true)
                } else {
                    quote!(false)
                }
            }
        };
        members.push(quote!(.member(#key, #is_optional, #shape, #description, &[#(#keywords),*])));
    }
    Ok(quote! {
        #[automatically_derived]
        impl ::pith_sdk::Input for #name {
            fn schema() -> ::pith_sdk::Schema {
                <Self as ::pith_sdk::Field>::shape(0).into()
            }
        }
        #[automatically_derived]
        impl ::pith_sdk::Field for #name {
            fn shape(nesting: u32) -> ::pith_sdk::Property {
                if nesting > ::pith_sdk::Property::MAX_NESTING {
                    return ::pith_sdk::Property::shaped("\"type\":\"object\"", &[]);
                }
                ::pith_sdk::Schema::object()#(#members)*.into()
            }
        }
    })
}

fn of_enum(item: &DeriveInput, serde: &Serde, data: &DataEnum) -> Result<TokenStream> {
    let ident = &item.ident;
    let mut names = Vec::new();
    let mut told = Vec::new();
    for variant in &data.variants {
        let own = attributes::serde(&variant.attrs)?;
        if own.skip {
            continue;
        }
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new(
                variant.span(),
                "`#[derive(Input)]` takes enums whose variants are names alone; small models fail at choices of objects. \
                 Use optional fields, or `#[input(schema = ...)]` on the field",
            ));
        }
        let plain = unraw(&variant.ident);
        let name =
            own.rename.unwrap_or_else(|| serde.rename_all.map_or_else(|| plain.clone(), |style| style.variant(&plain)));
        let documentation = attributes::documentation(&variant.attrs)?;
        if !documentation.is_empty() {
            told.push(format!("`{name}`: {documentation}"));
        }
        names.push(quoted(&name));
    }
    if names.is_empty() {
        return Err(Error::new(ident.span(), "an enum without variants can have no value"));
    }
    let names = format!("[{}]", names.join(","));
    let told = told.join(" ");
    Ok(quote! {
        #[automatically_derived]
        impl ::pith_sdk::Field for #ident {
            fn shape(_: u32) -> ::pith_sdk::Property {
                ::pith_sdk::Property::shaped("\"type\":\"string\"", &[("enum", #names)]).described(#told)
            }
        }
    })
}

fn unraw(ident: &syn::Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").unwrap_or(&name).to_owned()
}

/// Refuses a bound on a type that is known to be of another kind.
fn check_bounds(bounds: &[(String, Kind, Span)], ty: &Type) -> Result<()> {
    let ty = inside("Option", ty).unwrap_or(ty);
    let Some(name) = last_name(ty) else { return Ok(()) };
    let (kind, is) = match name.as_str() {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" | "f32" | "f64" => {
            (Some(Kind::Number), "a number: use `min` and `max`")
        }
        "String" | "GuestPath" | "char" => {
            (Some(Kind::Text), "text: use `min_length`, `max_length`, `pattern` and `format`")
        }
        "Vec" => (Some(Kind::List), "a list: use `min_items` and `max_items`"),
        "bool" => (None, "true or false, which has no bounds"),
        _ => return Ok(()),
    };
    match bounds.iter().find(|(_, wanted, _)| Some(*wanted) != kind) {
        Some((bound, _, span)) => Err(Error::new(*span, format!("`{bound}` does not fit: `{name}` is {is}"))),
        None => Ok(()),
    }
}

fn is_option(ty: &Type) -> bool {
    inside("Option", ty).is_some()
}

fn last_name(ty: &Type) -> Option<String> {
    let Type::Path(path) = plain(ty) else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

/// The type without the invisible brackets that a macro leaves around it.
fn plain(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => plain(&group.elem),
        Type::Paren(paren) => plain(&paren.elem),
        ty => ty,
    }
}

/// `T` of `wrapper<T>`.
fn inside<'t>(wrapper: &str, ty: &'t Type) -> Option<&'t Type> {
    let Type::Path(path) = plain(ty) else { return None };
    let segment = path.path.segments.last().filter(|segment| segment.ident == wrapper)?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(ty)) => Some(ty),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(source: &str) -> String {
        let item: DeriveInput = syn::parse_str(source).unwrap();
        match expand(&item) {
            Err(error) => error.to_string(),
            Ok(tokens) => panic!("{source}: {tokens}"),
        }
    }

    #[test]
    fn what_cannot_be_described_is_named() {
        for (source, expected) in [
            (
                "struct A { #[input(minimum = 1)] a: u32 }",
                "there is no `minimum` in `#[input(...)]`; there are: min, max",
            ),
            ("struct A { #[input(min_length = 1)] a: u32 }", "`min_length` does not fit: `u32` is a number: use `min`"),
            (
                "struct A { #[input(min = 1)] a: Option<String> }",
                "`min` does not fit: `String` is text: use `min_length`",
            ),
            ("struct A { #[input(max = 1)] a: Vec<u8> }", "`max` does not fit: `Vec` is a list: use `min_items`"),
            ("struct A { #[input(max = 1)] a: bool }", "`max` does not fit: `bool` is true or false"),
            ("struct A { #[input(min = \"a\")] a: u32 }", "a number is wanted"),
            ("struct A { #[input(min = f())] a: u32 }", "a literal is wanted"),
            ("struct A { #[input(one_of())] a: String }", "`one_of` needs the values"),
            ("struct A { #[input(schema = \"string\")] a: String }", "a JSON Schema is wanted, an object"),
            ("struct A { #[input(default = 5)] a: u32 }", "`a` tells the model a default that serde does not have"),
            ("struct A { #[serde(flatten)] a: B }", "cannot describe what `serde(flatten)` reads"),
            ("#[serde(rename_all = \"Camel\")] struct A { a: u32 }", "serde has no such style"),
            ("#[serde(tag = \"t\")] enum A { B }", "cannot describe what `serde(tag)` reads"),
            ("enum A { B(u32) }", "takes enums whose variants are names alone"),
            ("enum A {}", "an enum without variants"),
            ("struct A(u32);", "an input is a JSON object"),
            ("struct A;", "an input is a JSON object"),
            ("union A { a: u32 }", "an input is a struct"),
            ("struct A<'a> { a: &'a str }", "is for types without parameters"),
        ] {
            let refusal = refusal(source);
            assert!(refusal.contains(expected), "{source}: {refusal}");
        }
        let long = format!("struct A {{ #[doc = \"{}\"] a: u32 }}", "x".repeat(4097));
        assert!(refusal(&long).contains("4097 bytes; the host takes at most 4096"));
    }
}
