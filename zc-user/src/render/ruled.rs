//! The look of all tables: titles, a rule below them, two spaces between columns.

use comfy_table::{CellAlignment, ContentLineStyle, LineStyle, Table, TableStyle};

const RULED: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction(' '))
    .header_separator(LineStyle::none().fill('-').junction(' '))
    .content_lines(ContentLineStyle::none().junction(' '));

/// An empty table of this look.
pub(super) fn table() -> Table {
    let mut table = Table::new();
    table.load_style(RULED).force_no_tty();
    table
}

/// Sets the spaces between columns, and numbers (all columns but the first) to the right.
pub(super) fn align(table: &mut Table) {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((padding(index), 0));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// The style draws one space between two columns, the padding of the second the other.
pub(super) fn padding(column: usize) -> u16 {
    u16::from(column > 0)
}

/// The lines of a table.
pub(super) fn lines(table: &Table) -> Vec<String> {
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}
