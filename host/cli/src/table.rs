//! Tables for people: columns as wide as their widest cell.

/// A table: the first columns are words, the rest numbers.
pub fn table<R: AsRef<[String]>>(rows: &[R], words: usize) -> String {
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.as_ref().get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.as_ref().iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column < words { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}
