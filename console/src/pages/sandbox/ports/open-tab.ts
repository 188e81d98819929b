// Opens a service in a tab of its own.
import { openService, type Service } from '../../../api';
import { isWeb } from '../../../format/service';
import { toast } from '../../../ui';
import { strings } from './strings';

/** The tab is opened before the server is asked: a browser allows that only in answer to a press. */
export async function openTab(service: Pick<Service, 'id' | 'name'>): Promise<void> {
  const tab = window.open('about:blank', '_blank');
  if (!tab) {
    toast.failed(strings.failed('open', service.name), new Error(strings.blocked));
    return;
  }
  // The page must not reach the console.
  tab.opener = null;
  try {
    const { url } = await openService(service.id, { frame: false });
    if (!isWeb(url)) throw new Error('The server gave no address of the web.');
    tab.location.replace(url);
  } catch (error) {
    tab.close();
    toast.failed(strings.failed('open', service.name), error);
  }
}
