//! Markdown of models as HTML that does nothing: no HTML of theirs, no picture that would be fetched, links only where the reader clicks.

use super::{escaped, escaped_bounded};
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html::push_html};

/// Longer texts are shown as they are written, in bytes.
const MARKDOWN_LIMIT_BYTES: usize = 256 << 10;

/// The text as HTML.
pub(super) fn html(text: &str) -> String {
    if text.len() > MARKDOWN_LIMIT_BYTES {
        return format!("<pre>{}</pre>\n", escaped_bounded(text));
    }
    let shown = crate::harmless::visible(text);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut tame = Tame::default();
    let events = Parser::new_ext(&shown, options).filter_map(move |event| tame.event(event));
    let mut out = String::with_capacity(shown.len() * 2);
    push_html(&mut out, events);
    out
}

#[derive(Default)]
struct Tame {
    /// Of each link and picture that is open: what ends it.
    ends: Vec<String>,
    /// Within HTML, which is shown as text.
    is_html: bool,
}

impl Tame {
    fn event<'e>(&mut self, event: Event<'e>) -> Option<Event<'e>> {
        Some(match event {
            Event::Start(Tag::HtmlBlock) => {
                self.is_html = true;
                raw("<pre>".to_owned())
            }
            Event::End(TagEnd::HtmlBlock) => {
                self.is_html = false;
                raw("</pre>\n".to_owned())
            }
            // The writer escapes text.
            Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
            Event::Start(Tag::Link { dest_url, .. }) => {
                let address = escaped(&dest_url);
                if leads_outside(&dest_url) {
                    self.ends.push("</a>".to_owned());
                    raw(format!("<a href=\"{address}\" rel=\"noreferrer noopener nofollow\">"))
                } else {
                    // An address within the project, or one that would do something.
                    self.ends.push(format!(" (<code>{address}</code>)"));
                    return None;
                }
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                self.ends.push(format!(" <code>{}</code>]", escaped(&dest_url)));
                raw("[picture: ".to_owned())
            }
            Event::End(TagEnd::Link | TagEnd::Image) => raw(self.ends.pop().unwrap_or_default()),
            // The page's own headings end at the second level.
            Event::Start(Tag::Heading { level, .. }) => {
                Event::Start(Tag::Heading { level: lowered(level), id: None, classes: Vec::new(), attrs: Vec::new() })
            }
            Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(lowered(level))),
            other => other,
        })
    }
}

fn raw<'e>(html: String) -> Event<'e> {
    Event::InlineHtml(CowStr::from(html))
}

fn lowered(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H3,
        HeadingLevel::H2 => HeadingLevel::H4,
        HeadingLevel::H3 => HeadingLevel::H5,
        _ => HeadingLevel::H6,
    }
}

/// Whether an address is one that a browser opens and nothing else.
fn leads_outside(address: &str) -> bool {
    let scheme = address.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| matches!(scheme.as_str(), "http" | "https" | "mailto"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(html(text).trim_end(), expected);
    }

    #[test]
    fn prose_is_prose() {
        check("# A\n\n*b* `c`\n\n- d", "<h3>A</h3>\n<p><em>b</em> <code>c</code></p>\n<ul>\n<li>d</li>\n</ul>");
        check(
            "|a|b|\n|-|-|\n|1|2|",
            "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>\n<tr><td>1</td><td>2</td></tr>\n</tbody></table>",
        );
        check("```rust\nfn a() {}\n```", "<pre><code class=\"language-rust\">fn a() {}\n</code></pre>");
    }

    #[test]
    fn nothing_runs_and_nothing_is_fetched() {
        check("<script>alert(1)</script>", "<pre>&lt;script&gt;alert(1)&lt;/script&gt;</pre>");
        check("a <img src=x onerror=y> b", "<p>a &lt;img src=x onerror=y&gt; b</p>");
        check("![alt](https://x.example/p.png)", "<p>[picture: alt <code>https://x.example/p.png</code>]</p>");
        check("[a](javascript:alert(1))", "<p>a (<code>javascript:alert(1)</code>)</p>");
        check("[a](src/lib.rs)", "<p>a (<code>src/lib.rs</code>)</p>");
        check(
            "[a](https://x.example/?a=1&b=\"2\")",
            "<p><a href=\"https://x.example/?a=1&amp;b=&quot;2&quot;\" rel=\"noreferrer noopener nofollow\">a</a></p>",
        );
        check(
            "[![i](http://y/z)](data:text/html,x)",
            "<p>[picture: i <code>http://y/z</code>] (<code>data:text/html,x</code>)</p>",
        );
        check("```\" onload=x\ny\n```", "<pre><code class=\"language-&quot;\">y\n</code></pre>");
        check("a\u{202e}b\u{1b}[31m", "<p>a&lt;U+202E&gt;b</p>");
    }
}
