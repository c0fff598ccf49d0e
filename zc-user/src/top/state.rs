//! What the view shows of the model, and what keys change of that. Pure.

use std::collections::BTreeSet;

use super::{
    columns::LiveColumn,
    keys::KeyPress,
    model::{LiveModel, LiveRow},
    span_rows::{Grouping, LiveKey},
};

/// What a key asks for, beyond another view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyEffect {
    /// Nothing more.
    None,
    /// To end the view.
    Quit,
    /// What Ctrl-C asks for where there is no view.
    Interrupt,
}

/// A row of the model with its key.
pub type KeyedRow<'m> = (&'m LiveKey, &'m LiveRow);

/// What is shown.
#[derive(Debug)]
pub struct LiveView {
    /// What rows stand for.
    pub grouping: Grouping,
    /// What they are sorted by.
    pub sort: LiveColumn,
    /// Whether they are in the reverse order.
    pub is_reversed: bool,
    /// Only rows with this text in their names are shown, in upper or lower case.
    pub filter: String,
    /// Whether the filter is being typed.
    pub is_typing: bool,
    /// Whether the keys are explained.
    pub shows_help: bool,
    /// The row that more is said of; without it, the first.
    pub selected: Option<LiveKey>,
    /// The first line of the table that is shown.
    pub first_line: usize,
    /// How many lines of the table there is room for.
    pub page: usize,
    expanded: BTreeSet<LiveKey>,
    frozen: Option<Box<LiveModel>>,
}

impl Default for LiveView {
    fn default() -> Self {
        Self {
            grouping: Grouping::Program,
            sort: LiveColumn::CallRate,
            is_reversed: false,
            filter: String::new(),
            is_typing: false,
            shows_help: false,
            selected: None,
            first_line: 0,
            page: 0,
            expanded: BTreeSet::new(),
            frozen: None,
        }
    }
}

impl LiveView {
    /// Whether the view stands still, while counting goes on.
    pub const fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// What is shown: the model, or what it was when the view was frozen.
    pub fn shown<'m>(&'m self, model: &'m LiveModel) -> &'m LiveModel {
        self.frozen.as_deref().unwrap_or(model)
    }

    /// The rows that are shown, in their order.
    pub fn rows<'m>(&self, shown: &'m LiveModel) -> Vec<KeyedRow<'m>> {
        let filter = self.filter.to_lowercase();
        let is_wanted = |(key, _): &KeyedRow<'_>| key.name.to_lowercase().contains(&filter);
        let mut rows: Vec<KeyedRow<'m>> = shown.rows(self.grouping).filter(is_wanted).collect();
        rows.sort_by(|a, b| self.sort.compare(*a, *b));
        if self.is_reversed {
            rows.reverse();
        }
        rows
    }

    /// Which of these rows is selected; the first if none is.
    pub fn selected_index(&self, rows: &[KeyedRow<'_>]) -> usize {
        let selected = self.selected.as_ref();
        let index = selected.and_then(|selected| rows.iter().position(|row| row.0 == selected));
        index.unwrap_or(0)
    }

    /// Whether the calls of a row are shown.
    pub fn is_expanded(&self, key: &LiveKey) -> bool {
        self.expanded.contains(key)
    }

    /// Does what a key means.
    pub fn press(&mut self, key: KeyPress, model: &LiveModel) -> KeyEffect {
        if key == KeyPress::Interrupt {
            return KeyEffect::Interrupt;
        }
        if self.shows_help {
            self.shows_help = false;
        } else if self.is_typing {
            self.edit_filter(key);
        } else if key == KeyPress::Char('q') {
            return KeyEffect::Quit;
        } else {
            self.command(key, model);
        }
        KeyEffect::None
    }

    fn edit_filter(&mut self, key: KeyPress) {
        match key {
            KeyPress::Char(c) => self.filter.push(c),
            KeyPress::Backspace => drop(self.filter.pop()),
            KeyPress::Enter => self.is_typing = false,
            KeyPress::Escape => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
    }

    fn command(&mut self, key: KeyPress, model: &LiveModel) {
        match key {
            KeyPress::Char('p') => self.group_by(Grouping::Program),
            KeyPress::Char('P') => self.group_by(Grouping::Process),
            KeyPress::Char('t') => self.group_by(Grouping::Thread),
            KeyPress::Char('f') => self.group_by(Grouping::File),
            KeyPress::Char('x') => self.group_by(Grouping::Transfer),
            KeyPress::Char('s' | '>') | KeyPress::Right => self.sort_by_other(false),
            KeyPress::Char('<') | KeyPress::Left => self.sort_by_other(true),
            KeyPress::Char('r') => self.is_reversed = !self.is_reversed,
            KeyPress::Char('/') => self.is_typing = true,
            KeyPress::Char('?') => self.shows_help = true,
            KeyPress::Char(' ') => {
                self.frozen = match self.frozen.take() {
                    Some(_) => None,
                    None => Some(Box::new(model.clone())),
                };
            }
            KeyPress::Escape => self.filter.clear(),
            _ => self.move_or_expand(key, model),
        }
    }

    fn group_by(&mut self, grouping: Grouping) {
        let had_bytes_first = self.grouping.has_bytes_first();
        self.grouping = grouping;
        self.selected = None;
        let is_shown = LiveColumn::for_grouping(grouping).any(|column| column == self.sort);
        if grouping.has_bytes_first() != had_bytes_first || !is_shown {
            self.sort = if grouping.has_bytes_first() {
                LiveColumn::ByteRate
            } else {
                LiveColumn::CallRate
            };
        }
    }

    /// Sorts by the next column or the one before; after the last comes the first.
    fn sort_by_other(&mut self, is_before: bool) {
        let mut columns: Vec<LiveColumn> = LiveColumn::for_grouping(self.grouping).collect();
        if is_before {
            columns.reverse();
        }
        let from = columns.iter().position(|column| *column == self.sort);
        let next = columns.iter().cycle().nth(from.unwrap_or(0) + 1);
        self.sort = next.copied().unwrap_or(self.sort);
    }

    fn move_or_expand(&mut self, key: KeyPress, model: &LiveModel) {
        let rows = self.rows(self.shown(model));
        let Some(last) = rows.len().checked_sub(1) else {
            return;
        };
        let index = self.selected_index(&rows);
        let page = self.page.max(1);
        let next = match key {
            KeyPress::Up => index.saturating_sub(1),
            KeyPress::Down => index + 1,
            KeyPress::PageUp => index.saturating_sub(page),
            KeyPress::PageDown => index + page,
            KeyPress::Home => 0,
            KeyPress::End => last,
            _ => index,
        };
        let selected = rows[next.min(last)].0.clone();
        if key == KeyPress::Enter && !self.expanded.remove(&selected) {
            self.expanded.insert(selected.clone());
        }
        self.selected = Some(selected);
    }
}
