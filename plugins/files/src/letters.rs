//! What a character is compared as: its compatibility decomposition (NFKD), typographic quotes, dashes and spaces as the
//! ASCII ones that people and models type for them.
//!
//! `letters.txt` has a line for each character that is decomposed: the character, then what it becomes; sorted by the
//! character. It is made from Unicode's data without Arabic presentation forms, mathematical letters, radicals and
//! compatibility ideographs, which would double it. Hangul is decomposed by rule.

const LETTERS: &str = include_str!("letters.txt");

/// Appends what `char` is compared as.
pub fn fold(char: char, into: &mut String) {
    if char.is_ascii() {
        into.push(char);
        return;
    }
    let plain = plain(char);
    if plain.is_ascii() {
        into.push(plain);
    } else if let Some(text) = decomposed(char) {
        into.extend(text.chars().map(self::plain));
    } else if let Some(syllable) = (char as u32).checked_sub(HANGUL).filter(|&syllable| syllable < HANGUL_SYLLABLES) {
        let parts = [0x1100 + syllable / 588, 0x1161 + syllable % 588 / 28, 0x11a7 + syllable % 28];
        let count = if syllable % 28 == 0 { 2 } else { 3 };
        into.extend(parts[..count].iter().copied().filter_map(char::from_u32));
    } else {
        into.push(char);
    }
}

/// A whole text, folded.
pub fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    text.chars().for_each(|char| fold(char, &mut folded));
    folded
}

/// White space that may trail, after folding.
pub fn is_space(char: char) -> bool {
    matches!(plain(char), ' ' | '\t')
}

/// A mark that belongs to the letter before it.
pub fn is_mark(char: char) -> bool {
    matches!(char, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{3099}' | '\u{309a}' | '\u{1160}'..='\u{11ff}' | '\u{fe00}'..='\u{fe0f}')
}

const HANGUL: u32 = 0xac00;
const HANGUL_SYLLABLES: u32 = 11_172;

fn plain(char: char) -> char {
    match char {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        char => char,
    }
}

/// The rest of the character's line in [`LETTERS`], by bisection over its bytes: no index is built, since every call of
/// a tool has an instance of its own.
fn decomposed(char: char) -> Option<&'static str> {
    // Ideographs, kana above the composed ones and all that is not in the table: most of the text that is not Latin.
    if matches!(char, '\u{3400}'..='\u{9fff}' | '\u{1f300}'..) {
        return None;
    }
    let (mut low, mut high) = (0, LETTERS.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let start =
            LETTERS.as_bytes()[low..middle].iter().rposition(|&byte| byte == b'\n').map_or(low, |at| low + at + 1);
        let line = LETTERS[start..high].split('\n').next().unwrap_or_default();
        let mut chars = line.chars();
        match chars.next()?.cmp(&char) {
            std::cmp::Ordering::Equal => return Some(chars.as_str()),
            std::cmp::Ordering::Less => low = start + line.len() + 1,
            std::cmp::Ordering::Greater => high = start,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_line_of_it_is_found() {
        let mut before = '\0';
        for line in LETTERS.lines() {
            let mut chars = line.chars();
            let char = chars.next().unwrap();
            assert!(char > before && !char.is_ascii(), "{line}");
            assert!(!chars.as_str().is_empty());
            if !matches!(char, '\u{3400}'..='\u{9fff}' | '\u{1f300}'..) {
                assert_eq!(decomposed(char), Some(chars.as_str()), "{line}");
            }
            // Folding what is folded changes nothing.
            let once = folded(line);
            assert_eq!(folded(&once), once, "{line}");
            before = char;
        }
        for char in ['a', '\u{80}', '\u{9f}', 'ж', '字', '\u{10ffff}', '🙂'] {
            assert_eq!(decomposed(char), None);
        }
    }

    #[test]
    fn composed_and_decomposed_are_one() {
        for (a, b) in [
            ("é", "e\u{301}"),
            ("ệ", "e\u{323}\u{302}"),
            ("한글", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}"),
            ("가", "\u{1100}\u{1161}"),
            ("が", "か\u{3099}"),
            ("ﬁn…", "fin..."),
            ("（ａ）", "(a)"),
            ("x²", "x2"),
            ("“‘—−\u{a0}\u{202f}\u{3000}’”", "\"'--   '\""),
        ] {
            assert_eq!(folded(a), folded(b), "{a} {b}");
        }
        assert_ne!(folded("é"), folded("e"));
    }
}
