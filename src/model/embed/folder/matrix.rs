//! Products of matrices. The one unsafe call of the crate is here, behind checks.

/// A matrix to read: numbers in a slice, and how far apart neighbours are.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) values: &'a [f32],
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// From a row to the next.
    pub(super) row_step: usize,
    /// From a column to the next.
    pub(super) column_step: usize,
}

impl<'a> Matrix<'a> {
    /// Rows one after the other, each `row_step` after the one before.
    pub(super) fn of_rows(values: &'a [f32], rows: usize, columns: usize, row_step: usize) -> Self {
        Self { values, rows, columns, row_step, column_step: 1 }
    }

    /// Rows and columns exchanged.
    pub(super) fn turned(self) -> Self {
        Self { rows: self.columns, columns: self.rows, row_step: self.column_step, column_step: self.row_step, ..self }
    }
}

/// Where a product goes: row after row, each `row_step` after the one before.
pub(super) struct Target<'a> {
    pub(super) values: &'a mut [f32],
    pub(super) row_step: usize,
}

/// `target = factor × left × right + keep × target`.
///
/// # Panics
///
/// When a matrix reaches beyond its slice or the sizes do not fit together, which is a mistake in this program:
/// weights and texts have been checked before.
#[expect(
    unsafe_code,
    reason = "the only fast product there is takes pointers; everything it relies on is asserted here"
)]
pub(super) fn multiply(factor: f32, left: Matrix<'_>, right: Matrix<'_>, keep: f32, target: Target<'_>) {
    let (rows, columns) = (left.rows, right.columns);
    let fits = |length: usize, (rows, columns): (usize, usize), (row_step, column_step): (usize, usize)| {
        let last = |count: usize, step: usize| count.checked_sub(1).map(|last| last.checked_mul(step));
        match (last(rows, row_step), last(columns, column_step)) {
            (Some(row), Some(column)) => {
                row.zip(column).and_then(|(r, c)| r.checked_add(c)).is_some_and(|at| at < length)
            }
            // A matrix without numbers reaches nowhere.
            _ => true,
        }
    };
    assert_eq!(left.columns, right.rows, "the matrices fit together");
    assert!(fits(left.values.len(), (rows, left.columns), (left.row_step, left.column_step)), "left is whole");
    assert!(fits(right.values.len(), (right.rows, columns), (right.row_step, right.column_step)), "right is whole");
    assert!(fits(target.values.len(), (rows, columns), (target.row_step, 1)), "the target is whole");
    assert!(rows <= 1 || columns <= target.row_step, "no two places of the target are the same");
    let step = |step: usize| isize::try_from(step).expect("a slice is shorter than isize::MAX");
    // SAFETY: every place the product reads or writes lies in its slice and the target is borrowed mutably with no two
    // of its places the same, as asserted above.
    unsafe {
        matrixmultiply::sgemm(
            rows,
            left.columns,
            columns,
            factor,
            left.values.as_ptr(),
            step(left.row_step),
            step(left.column_step),
            right.values.as_ptr(),
            step(right.row_step),
            step(right.column_step),
            keep,
            target.values.as_mut_ptr(),
            step(target.row_step),
            1,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    const RIGHT: [f32; 6] = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0];

    #[test]
    fn rows_meet_columns() {
        let mut product = [1.0; 4];
        let (left, right) = (Matrix::of_rows(&LEFT, 2, 3, 3), Matrix::of_rows(&RIGHT, 3, 2, 2));
        multiply(2.0, left, right, 1.0, Target { values: &mut product, row_step: 2 });
        assert_eq!(product, [9.0, 11.0, 21.0, 23.0]);
    }

    #[test]
    fn a_turned_matrix_is_read_by_columns() {
        let mut product = [0.0; 4];
        let left = Matrix::of_rows(&LEFT, 2, 3, 3);
        multiply(1.0, left, left.turned(), 0.0, Target { values: &mut product, row_step: 2 });
        assert_eq!(product, [14.0, 32.0, 32.0, 77.0]);
    }

    #[test]
    fn nothing_times_nothing_is_nothing() {
        multiply(
            1.0,
            Matrix::of_rows(&[], 0, 3, 3),
            Matrix::of_rows(&RIGHT, 3, 2, 2),
            0.0,
            Target { values: &mut [], row_step: 2 },
        );
    }

    #[test]
    #[should_panic = "left is whole"]
    fn a_matrix_beyond_its_slice_is_caught() {
        let (left, right) = (Matrix::of_rows(&LEFT, 3, 3, 3), Matrix::of_rows(&RIGHT, 3, 2, 2));
        multiply(1.0, left, right, 0.0, Target { values: &mut [0.0; 6], row_step: 2 });
    }

    #[test]
    #[should_panic = "the target is whole"]
    fn a_target_too_small_is_caught() {
        let (left, right) = (Matrix::of_rows(&LEFT, 2, 3, 3), Matrix::of_rows(&RIGHT, 3, 2, 2));
        multiply(1.0, left, right, 0.0, Target { values: &mut [0.0; 3], row_step: 2 });
    }

    #[test]
    #[should_panic = "no two places"]
    fn a_target_over_itself_is_caught() {
        let (left, right) = (Matrix::of_rows(&LEFT, 2, 3, 3), Matrix::of_rows(&RIGHT, 3, 2, 2));
        multiply(1.0, left, right, 0.0, Target { values: &mut [0.0; 4], row_step: 1 });
    }
}
