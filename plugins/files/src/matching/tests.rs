use super::*;

fn edit(old: &str, new: &str) -> Edit {
    Edit { old_text: old.into(), new_text: new.into() }
}

#[track_caller]
fn check(original: &str, edits: &[(&str, &str)], expected: &str) {
    let edits: Vec<Edit> = edits.iter().map(|&(old, new)| edit(old, new)).collect();
    assert_eq!(
        apply(original.as_bytes(), &edits, "f").map(|edited| String::from_utf8(edited.bytes).unwrap()),
        Ok(expected.to_owned())
    );
}

#[track_caller]
fn check_refused(original: &str, edits: &[(&str, &str)], expected: &str) {
    let edits: Vec<Edit> = edits.iter().map(|&(old, new)| edit(old, new)).collect();
    let message = apply(original.as_bytes(), &edits, "f").unwrap_err().message;
    assert!(message.contains(expected), "{message}");
}

#[test]
fn one_and_several() {
    check("a\nb\nc\n", &[("b", "B")], "a\nB\nc\n");
    check("a\nb\nc\n", &[("c", "C"), ("a", "A")], "A\nb\nC\n");
    check("a\nb\nc\n", &[("b\n", "")], "a\nc\n");
    // All are found in the original: what the first one writes is not seen by the second.
    check("x y", &[("x", "y"), ("y", "x")], "y x");
    check("ab", &[("a", "1"), ("b", "2")], "12");
}

#[test]
fn refusals_say_what_to_do() {
    check_refused("a\na\n", &[("a", "b")], "Found 2 occurrences of oldText in `f` (lines 1, 2)");
    check_refused("aaa", &[("aa", "b")], "Found 2 occurrences");
    check_refused("abc", &[("ab", "1"), ("bc", "2")], "edits[0] and edits[1] overlap");
    check_refused("abc", &[("bc", "1"), ("ab", "2")], "edits[1] and edits[0] overlap");
    check_refused("abc", &[("", "1")], "oldText is empty");
    check_refused("abc", &[("b", "b")], "No change made to `f`");
    check_refused("abc", &[("a", "1"), ("x", "2")], "Could not find edits[1].oldText in `f`");
    check_refused("abc", &[], "`edits` is empty");
    check_refused("abc  \n", &[("  \t", "x")], "Could not find oldText");
}

#[test]
fn a_text_that_is_nearly_there_is_told_where() {
    let text = "fn a() {\n    one();\n    two();\n}\n";
    check_refused(text, &[("fn a() {\n  one();", "x")], "same words start at line 1, but the indentation");
    check_refused(
        text,
        &[("    one();\n    three();", "x")],
        "agrees from line 2 on, but line 3 is `    two();` and not `    three();`",
    );
    check_refused(text, &[("two();\n}\nfn", "x")], "but the file ends after line 4");
    check_refused(text, &[("four();", "x")], "No line is like its first one");
}

#[test]
fn line_ends_stay_and_new_lines_take_them() {
    check("a\r\nb\r\nc\r\n", &[("b", "x\ny")], "a\r\nx\r\ny\r\nc\r\n");
    check("a\r\nb\r\nc\r\n", &[("a\nb\n", "n\n")], "n\r\nc\r\n");
    check("a\r\nb\r\n", &[("a\r\nb", "x\r\ny")], "x\r\ny\r\n");
    check("a\nb\r\nc\n", &[("c", "d\ne"), ("b", "x\ny")], "a\nx\r\ny\r\nd\ne\n");
    check("a\r\nlast", &[("last", "x\ny")], "a\r\nx\r\ny");
    check("a\nb\n", &[("b", "x\r\ny")], "a\nx\ny\n");
    check("a\r\nb", &[("\nb", "")], "a");
}

#[test]
fn a_byte_order_mark_stays() {
    check("\u{feff}a\nb\n", &[("a", "x")], "\u{feff}x\nb\n");
    check("\u{feff}a\nb\n", &[("\u{feff}a\n", "x\n")], "\u{feff}x\nb\n");
}

#[test]
fn retyped_text_is_found_and_the_rest_stays_byte_for_byte() {
    check(
        "s = \u{201c}x\u{201d};\t\nt = \u{201c}y\u{201d};  \n",
        &[("s = \"x\";", "s = 1;")],
        "s = 1;\nt = \u{201c}y\u{201d};  \n",
    );
    check("a  \nb\t\nc  \n", &[("a\nb\n", "x\n")], "x\nc  \n");
    check("a \u{2014} b\n", &[("a - b", "c")], "c\n");
    check("a\u{a0}b\n", &[("a b", "c")], "c\n");
    // The model's own trailing white space, where the file has none.
    check("foo\nbar\n", &[("foo  \nbar ", "x")], "x\n");
    check("let x = \u{2018}1\u{2019};\n", &[("let x = '1", "let y = '2")], "let y = '2\u{2019};\n");
    // Exactly there once, and once more by folding: the model may have retyped the other one.
    check_refused("'a'\n\u{2018}a\u{2019}\n", &[("'a'", "b")], "in `f` exactly as written at line 1, but 2 times");
    check("'a'\n\u{2018}a\u{2019}\n", &[("'a'\n\u{2018}", "b\n\u{2018}")], "b\n\u{2018}a\u{2019}\n");
    // Compatibility forms, ligatures, composed and decomposed letters.
    check("wait\u{2026} \u{ff08}1\u{ff09}\n", &[("wait... (1)", "go")], "go\n");
    check("re\u{301}sume\u{301} x\n", &[("r\u{e9}sum\u{e9}", "cv")], "cv x\n");
    check_refused("caf\u{e9}\n", &[("cafe", "bar")], "Could not find");
    // Found twice only by folding is still twice.
    check_refused("\u{201c}a\u{201d}\n\u{201e}a\u{201f}\n", &[("\"a\"", "b")], "Found 2 occurrences");
    let edited = apply("a\u{2019}\nb\n".as_bytes(), &[edit("a'", "c"), edit("b", "d")], "f").unwrap();
    assert_eq!(edited.loose, 1);
}

#[test]
fn trailing_space_is_ignored_only_at_a_lines_end() {
    check_refused("foo_bar \u{2019}\n", &[("foo \n", "x\n")], "Could not find");
    check_refused("foobar\u{2019}\n", &[("foo ", "x")], "Could not find");
}

#[test]
fn bytes_that_are_no_text_stay_and_are_not_found() {
    let apply = |old: &str, new: &str| apply(b"caf\xe9 au lait\r\nb\xfe\r\n", &[edit(old, new)], "f");
    assert_eq!(apply("b", "x\ny").unwrap().bytes, b"caf\xe9 au lait\r\nx\r\ny\xfe\r\n");
    assert_eq!(apply("\nb", "+").unwrap().bytes, b"caf\xe9 au lait+\xfe\r\n");
    let message = apply("caf\u{fffd} au lait", "x").unwrap_err().message;
    assert!(message.contains("It has \u{fffd}, which read shows for bytes that are not UTF-8"), "{message}");
}

#[test]
fn what_was_done_before_is_said() {
    check_refused("a\nb = 2\n", &[("b = 1", "b = 2")], "Its newText is there already, at line 2");
    check_refused("a\n", &[("   ", "x")], "only white space");
}

#[test]
fn what_would_cost_too_much_memory_is_refused() {
    for original in ["\n".repeat(MAX_LINES + 1).into_bytes(), b"\xffa".repeat(crate::folded::MAX_PIECES)] {
        let message = apply(&original, &[edit("b", "c")], "f").unwrap_err().message;
        assert!(message.contains("too many lines or special characters"), "{message}");
    }
}
