// The columns of the list. On narrow screens they leave in this order: made by, CPU, size, template.
import type { SandboxRow } from '../../api';
import type { Column } from '../../ui';
import { phaseOf } from './acts';
import { Ends, MadeBy, More, Name, SmallRow, State, sizeOf, Template } from './cells';
import { Cpu } from './cpu';
import { strings } from './strings';

/** One that failed or ended tells why in place of what means nothing now. */
const MEANINGLESS = ['template', 'size', 'cpu'];

const words = strings.columns;

export const COLUMNS: readonly Column<SandboxRow>[] = [
  { id: 'name', header: words.name, width: 'minmax(190px, 1.5fr)', cell: (row) => <Name row={row} /> },
  {
    id: 'state',
    header: words.state,
    width: 'minmax(160px, 1.5fr)',
    cell: (row) => <State row={row} />,
    span: (row, visible) => {
      const phase = phaseOf(row);
      if (phase !== 'failed' && phase !== 'ended') return 1;
      return 1 + visible.filter((id) => MEANINGLESS.includes(id)).length;
    },
  },
  {
    id: 'template',
    header: words.template,
    width: 'minmax(90px, 1fr)',
    cell: (row) => <Template row={row} />,
    hideBelow: 740,
  },
  {
    id: 'size',
    header: words.size,
    width: '128px',
    cell: (row) => <span className="dim">{sizeOf(row)}</span>,
    hideBelow: 800,
  },
  { id: 'cpu', header: words.cpu, width: '124px', cell: (row) => <Cpu row={row} />, hideBelow: 900 },
  { id: 'by', header: words.by, width: 'minmax(100px, 0.8fr)', cell: (row) => <MadeBy row={row} />, hideBelow: 1020 },
  { id: 'ends', header: words.ends, width: '118px', right: true, cell: (row) => <Ends row={row} /> },
  {
    id: 'more',
    header: <span className="sr">{words.more}</span>,
    width: '46px',
    right: true,
    cell: (row) => <More row={row} />,
  },
];

export const small = (row: SandboxRow) => <SmallRow row={row} />;
