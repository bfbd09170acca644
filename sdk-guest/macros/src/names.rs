//! `rename_all` as serde reads it.

/// The styles that `rename_all` has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Lower,
    Upper,
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Kebab,
    ScreamingKebab,
}

impl Style {
    /// The style of this name; none where serde has no such style.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "lowercase" => Self::Lower,
            "UPPERCASE" => Self::Upper,
            "PascalCase" => Self::Pascal,
            "camelCase" => Self::Camel,
            "snake_case" => Self::Snake,
            "SCREAMING_SNAKE_CASE" => Self::ScreamingSnake,
            "kebab-case" => Self::Kebab,
            "SCREAMING-KEBAB-CASE" => Self::ScreamingKebab,
            _ => return None,
        })
    }

    /// A field's name, written in snake case in the source.
    pub fn field(self, name: &str) -> String {
        let pascal = || -> String { name.split('_').map(capitalized).collect() };
        match self {
            Self::Lower | Self::Snake => name.to_owned(),
            Self::Upper | Self::ScreamingSnake => name.to_ascii_uppercase(),
            Self::Pascal => pascal(),
            Self::Camel => uncapitalized(&pascal()),
            Self::Kebab => name.replace('_', "-"),
            Self::ScreamingKebab => name.to_ascii_uppercase().replace('_', "-"),
        }
    }

    /// A variant's name, written in Pascal case in the source.
    pub fn variant(self, name: &str) -> String {
        let snake = || {
            let mut snake = String::new();
            for (at, char) in name.char_indices() {
                if at > 0 && char.is_uppercase() {
                    snake.push('_');
                }
                snake.push(char.to_ascii_lowercase());
            }
            snake
        };
        match self {
            Self::Pascal => name.to_owned(),
            Self::Lower => name.to_ascii_lowercase(),
            Self::Upper => name.to_ascii_uppercase(),
            Self::Camel => uncapitalized(name),
            Self::Snake => snake(),
            Self::ScreamingSnake => snake().to_ascii_uppercase(),
            Self::Kebab => snake().replace('_', "-"),
            Self::ScreamingKebab => snake().to_ascii_uppercase().replace('_', "-"),
        }
    }
}

fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

fn uncapitalized(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(chars).collect()
}
