//! Where in the file the bytes are that a session appended. Mostly at the place that the session counts; elsewhere once it had to go on in
//! another file, or behind a piece of a line that could not be cut off.

/// A run of the session's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// The session's places, `from..to`.
    from: u64,
    to: u64,
    /// Where the first of them is in the file.
    at: u64,
}

/// All of them, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pieces(Vec<Piece>);

impl Pieces {
    /// `length` bytes more, which are at `at` in the file. The session counts them from its end on.
    pub fn push(&mut self, length: u64, at: u64) {
        if length == 0 {
            return;
        }
        let from = self.end();
        match self.0.last_mut() {
            Some(last) if last.at.saturating_add(from.saturating_sub(last.from)) == at && last.to == from => {
                last.to = from.saturating_add(length);
            }
            _ => self.0.push(Piece { from, to: from.saturating_add(length), at }),
        }
    }

    /// How many bytes the session counts.
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |last| last.to)
    }

    /// The parts of `offset..offset + length` that are in the file: where among the wanted bytes, where in the file, how many.
    pub fn find(&self, offset: u64, length: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        let wanted_end = offset.saturating_add(length);
        let first = self.0.partition_point(|piece| piece.to <= offset);
        self.0[first..].iter().take_while(move |piece| piece.from < wanted_end).filter_map(move |piece| {
            let (from, to) = (piece.from.max(offset), piece.to.min(wanted_end));
            (from < to).then(|| (from - offset, piece.at + (from - piece.from), to - from))
        })
    }

    /// The same in another file, into which ranges of this file were copied: `(from, to, at)`, in order. What is in none of them is lost.
    pub fn copied(&self, ranges: &[(u64, u64, u64)]) -> Self {
        let mut copied: Vec<Piece> = Vec::new();
        for piece in &self.0 {
            let piece_end = piece.at.saturating_add(piece.to.saturating_sub(piece.from));
            for (from, to, at) in ranges {
                let (start, end) = (piece.at.max(*from), piece_end.min(*to));
                if start >= end {
                    continue;
                }
                let new_from = piece.from + (start - piece.at);
                let new = Piece { from: new_from, to: new_from + (end - start), at: at + (start - from) };
                match copied.last_mut() {
                    Some(last) if last.to == new.from && last.at + (last.to - last.from) == new.at => last.to = new.to,
                    _ => copied.push(new),
                }
            }
        }
        // What was lost at the end counts nevertheless: what follows keeps its place.
        if copied.last().map_or(0, |last| last.to) < self.end() {
            let at = copied.last().map_or(0, |last| last.at + (last.to - last.from));
            copied.push(Piece { from: self.end(), to: self.end(), at });
        }
        Self(copied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pieces: &Pieces, offset: u64, length: u64) -> Vec<(u64, u64, u64)> {
        pieces.find(offset, length).collect()
    }

    #[test]
    fn bytes_are_found_where_they_are() {
        let mut pieces = Pieces::default();
        assert_eq!((pieces.end(), found(&pieces, 0, 10)), (0, Vec::new()));
        pieces.push(100, 0);
        pieces.push(50, 100);
        assert_eq!(pieces.0.len(), 1);
        assert_eq!(found(&pieces, 90, 20), [(0, 90, 20)]);
        // Behind seven bytes that could not be cut off.
        pieces.push(30, 157);
        assert_eq!(pieces.end(), 180);
        assert_eq!(found(&pieces, 140, 20), [(0, 140, 10), (10, 157, 10)]);
        assert_eq!(found(&pieces, 170, 50), [(0, 177, 10)]);
        assert_eq!(found(&pieces, 180, 1), []);
    }

    #[test]
    fn a_copy_has_what_was_copied() {
        let mut pieces = Pieces::default();
        pieces.push(100, 0);
        pieces.push(100, 107);
        // A longer header, all else.
        let moved = pieces.copied(&[(10, 207, 25)]);
        assert_eq!(found(&moved, 10, 200), [(0, 25, 90), (90, 122, 100)]);
        assert_eq!(found(&moved, 0, 10), []);
        assert_eq!(moved.end(), 200);
        // The middle is lost, and so is the end; what follows keeps its place.
        let mut holed = pieces.copied(&[(10, 50, 20), (150, 180, 60)]);
        assert_eq!(found(&holed, 0, 200), [(10, 20, 40), (143, 60, 30)]);
        assert_eq!(holed.end(), 200);
        holed.push(5, 90);
        assert_eq!(found(&holed, 170, 35), [(0, 87, 3), (30, 90, 5)]);
        let mut lost = pieces.copied(&[]);
        lost.push(5, 40);
        assert_eq!(found(&lost, 0, 300), [(200, 40, 5)]);
    }
}
