// What each tab gets.
import type { SandboxFull } from '../../api';

export interface TabProps {
  sandbox: SandboxFull;
}
