// What the page of chats says.
export const strings = {
  title: 'Chats',
  lead: 'What shall be done?',
  startFailed: 'Could not start the chat',
  suggestions: 'Suggestions',
  recent: 'Recent chats',
  search: 'Search chats',
  emptyTitle: 'No chats yet',
  emptyText: 'A chat is a model with a computer of its own. Say what shall be built, run or found out.',
  noMatch: 'No match',
  more: 'Load more',
  loadingMore: 'Loading more…',
  example: 'a page with a counter',
  menu: (title: string) => `Actions for ${title}`,
  open: 'Open',
};
